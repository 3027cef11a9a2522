-- The attacker finds the class of a person and rules out some values, because they know that the person does not have
-- them ("she is no smoker"). The worst case counts: they rule out the most frequent of the other values. Distinct
-- l-diversity withstands up to l - 2 ruled-out values.
-- cite: Machanavajjhala, Gehrke, Kifer and Venkitasubramaniam 2006
-- param: knowledge integer >= 0 default 1: how many values the attacker can rule out
-- measures: confidence, that a person has their own value, among the values that are left; broken, if no other is left
-- needs: sensitive
-- traits: informed
WITH ranked AS (
    SELECT
        class_id,
        records,
        ROW_NUMBER() OVER (PARTITION BY class_id ORDER BY records DESC, value) AS place
    FROM class_values
),
tops AS (
    SELECT
        class_id,
        SUM(CASE WHEN place <= :knowledge THEN records ELSE 0 END) AS most,
        SUM(CASE WHEN place <= :knowledge + 1 THEN records ELSE 0 END) AS one_more,
        COUNT(*) AS different
    FROM ranked
    GROUP BY class_id
)
SELECT
    r.records AS persons,
    -- Who has one of the most frequent values has others ruled out. A person with several values is in each of them.
    CAST(r.records AS DOUBLE PRECISION) / GREATEST(
        c.records - CASE WHEN r.place <= :knowledge THEN t.one_more - r.records ELSE t.most END, r.records
    ) AS confidence,
    CASE WHEN t.different <= :knowledge + 1 THEN 1 ELSE 0 END AS broken
FROM ranked AS r
JOIN tops AS t ON t.class_id = r.class_id
JOIN classes AS c ON c.class_id = r.class_id
