-- One round of learning for the deFinetti attack. From the beliefs about persons it counts how often each value of a
-- column occurs beside a sensitive value (naive Bayes, each count one higher than it is). From that, and from the
-- shares of the classes, it computes the new beliefs.
-- cite: Kifer 2009
-- measures: belief, that the persons of a group have a value
-- needs: targets, sensitive
-- makes: beliefs
WITH whole AS (
    SELECT b.value, SUM(t.persons * b.belief) AS weight
    FROM beliefs AS b
    JOIN targets AS t ON t.group_id = b.group_id
    GROUP BY b.value
),
beside AS (
    SELECT f.feature, f.label, b.value, SUM(t.persons * b.belief) AS weight
    FROM beliefs AS b
    JOIN targets AS t ON t.group_id = b.group_id
    JOIN features AS f ON f.group_id = b.group_id
    GROUP BY f.feature, f.label, b.value
),
domains AS (SELECT feature, COUNT(DISTINCT label) AS labels FROM features GROUP BY feature),
scores AS (
    SELECT
        b.group_id,
        b.value,
        b.share,
        LN(b.share) + SUM(LN((s.weight + 1) / (w.weight + d.labels))) AS score
    FROM beliefs AS b
    JOIN features AS f ON f.group_id = b.group_id
    JOIN beside AS s ON s.feature = f.feature AND s.label = f.label AND s.value = b.value
    JOIN whole AS w ON w.value = b.value
    JOIN domains AS d ON d.feature = f.feature
    GROUP BY b.group_id, b.value, b.share
),
weighed AS (
    SELECT group_id, value, share, EXP(score - MAX(score) OVER (PARTITION BY group_id)) AS weight FROM scores
)
SELECT group_id, value, share, weight / SUM(weight) OVER (PARTITION BY group_id) AS belief
FROM weighed
