-- Before the release the attacker believes that each person has each value with some probability (a table: --prior).
-- They revise this belief by the class of the person: the records of a value go to the persons of the class in the
-- ratio of the beliefs, which is the omega estimate. Where the prior is the same for all, the new belief is the share
-- in the class. Where the prior excludes all values of a class, the share counts.
-- cite: Li, Li and Zhang 2009; Fung, Wang, Chen and Yu 2010
-- param: gain number >= 0 <= 1 default 0.2: a person is broken if the probability of a value rises by more than this
-- param: ratio number >= 0 default 0: also broken if a value becomes this many times as likely; 0 leaves that out
-- measures: confidence, in the value whose probability rises most
-- no_guess: what is believed before the release is compared with what is believed after it, so that no base rate is
--   left
-- needs: targets, sensitive, prior
WITH crowds AS (
    SELECT f.class_id, p.value, SUM(t.persons * p.prior) AS weight
    FROM target_classes AS f
    JOIN targets AS t ON t.group_id = f.group_id
    JOIN priors AS p ON p.group_id = f.group_id
    GROUP BY f.class_id, p.value
),
sizes AS (SELECT class_id, CAST(SUM(records) AS DOUBLE PRECISION) AS records FROM named_values GROUP BY class_id),
fitting AS (
    SELECT f.group_id, f.class_id, s.records, s.records / SUM(s.records) OVER (PARTITION BY f.group_id) AS share
    FROM target_classes AS f
    JOIN sizes AS s ON s.class_id = f.class_id
),
weighed AS (
    SELECT
        f.group_id,
        f.share,
        v.value,
        v.records / f.records AS own,
        CASE WHEN w.weight > 0 THEN v.records * COALESCE(p.prior, 0) / w.weight ELSE 0 END AS weight,
        SUM(CASE WHEN w.weight > 0 THEN v.records * COALESCE(p.prior, 0) / w.weight ELSE 0 END)
            OVER (PARTITION BY f.group_id, f.class_id) AS every
    FROM fitting AS f
    JOIN named_values AS v ON v.class_id = f.class_id
    LEFT JOIN priors AS p ON p.group_id = f.group_id AND p.value = v.value
    LEFT JOIN crowds AS w ON w.class_id = f.class_id AND w.value = v.value
),
posteriors AS (
    SELECT
        group_id,
        value,
        SUM(share * CASE WHEN every > 0 THEN weight / NULLIF(every, 0) ELSE own END) AS posterior
    FROM weighed
    GROUP BY group_id, value
),
gains AS (
    SELECT
        o.group_id,
        o.posterior,
        COALESCE(p.prior, 0) AS prior,
        ROW_NUMBER() OVER (PARTITION BY o.group_id ORDER BY o.posterior - COALESCE(p.prior, 0) DESC, o.value) AS place
    FROM posteriors AS o
    LEFT JOIN priors AS p ON p.group_id = o.group_id AND p.value = o.value
)
SELECT
    t.persons,
    MAX(CASE WHEN g.place = 1 THEN g.posterior ELSE 0 END) AS confidence,
    MAX(
        CASE
            WHEN g.posterior - g.prior > :gain + 1e-9 THEN 1
            WHEN :ratio > 0 AND g.posterior > g.prior + 1e-9 AND g.posterior >= :ratio * g.prior - 1e-9 THEN 1
            ELSE 0
        END
    ) AS broken
FROM targets AS t
JOIN gains AS g ON g.group_id = t.group_id
GROUP BY t.group_id, t.persons
