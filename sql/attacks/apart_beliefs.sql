-- What an attacker believes about a person when a release shows sensitive values apart from their rows: anatomy, (k,e)
-- grouping, slicing. A person may be in every bucket where their known values match all parts, weighted by the number
-- of rows there that are expected to match. In a bucket they have a value as often as the rows that match them in the
-- part of the sensitive column.
-- cite: Xiao and Tao 2006; Li, Li, Zhang and Molloy 2012
-- param: parts integer: into how many parts the columns were cut
-- param: secret_part integer: the part that holds the sensitive column
-- measures: belief, that the persons of a group have a value
-- needs: targets, sensitive
-- makes: beliefs
WITH matching AS (
    SELECT t.group_id, c.bucket, MAX(s.n) * EXP(SUM(LN(CAST(c.n AS DOUBLE PRECISION) / s.n))) AS weight
    FROM target_parts AS t
    JOIN part_cells AS c ON c.part = t.part AND c.value = t.value
    JOIN part_sizes AS s ON s.bucket = c.bucket
    GROUP BY t.group_id, c.bucket
    HAVING COUNT(*) = :parts
),
whole AS (SELECT group_id, SUM(weight) AS weight FROM matching GROUP BY group_id),
learned AS (
    SELECT m.group_id, x.secret AS value, SUM(m.weight * x.n / c.n) AS weight
    FROM matching AS m
    JOIN target_parts AS t ON t.group_id = m.group_id AND t.part = :secret_part
    JOIN part_cells AS c ON c.part = t.part AND c.value = t.value AND c.bucket = m.bucket
    JOIN part_secrets AS x ON x.bucket = m.bucket AND x.value = t.value
    GROUP BY m.group_id, x.secret
)
SELECT l.group_id, l.value, l.weight / w.weight AS share, l.weight / w.weight AS belief
FROM learned AS l
JOIN whole AS w ON w.group_id = l.group_id
