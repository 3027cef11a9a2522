-- Each record names a guarding node in the taxonomy of its sensitive attribute. In its class the share of records below
-- that node may not exceed p_breach. A record without a guarding node asks for nothing. A person with several values
-- that count is counted once for each: the share errs on the safe side. NULLs are unknown values and count as values
-- below every guarding node, so that it holds whatever they are, unless the policy says `sensitive_nulls: value`.
-- cite: Xiao and Tao 2006
-- param: p_breach number > 0 <= 1: largest probability of inferring that a value lies below the guarding node
-- param: guard column: the column that names the guarding node of each record
-- measures: largest share below a guarding node that the class names; worse when larger
-- needs: sensitive, hierarchy, guards
-- monotone: no: a class that names a guarding node may be merged with one that does not and lies below it
WITH below AS (
    SELECT
        g.class_id,
        g.guard,
        CAST(SUM(CASE WHEN n.node IS NOT NULL OR v.known = 0 THEN v.records ELSE 0 END) AS DOUBLE PRECISION) AS records
    FROM class_guards AS g
    JOIN class_values AS v ON v.class_id = g.class_id
    LEFT JOIN (SELECT DISTINCT value, node FROM taxonomy) AS n ON n.node = g.guard AND n.value = v.value
    GROUP BY g.class_id, g.guard
)
SELECT class_id, measured
FROM (
    SELECT c.class_id, LEAST(COALESCE(MAX(b.records) / c.records, 0), 1) AS measured
    FROM classes AS c
    LEFT JOIN below AS b ON b.class_id = c.class_id
    GROUP BY c.class_id, c.records
) AS breach
WHERE measured > :p_breach + 1e-12
