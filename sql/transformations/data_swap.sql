-- The rows that were drawn change places in pairs, inside their stratum.
-- cite: Dalenius and Reiss 1982, Data-swapping: a technique for disclosure control
-- drawn(row_id, stratum, key, draw): the rows that were drawn, and the order in which they meet. An odd one stays.
WITH placed AS (
    SELECT
        row_id,
        ROW_NUMBER() OVER (PARTITION BY stratum ORDER BY draw, key) AS place,
        LEAD(row_id) OVER (PARTITION BY stratum ORDER BY draw, key) AS next_id,
        LAG(row_id) OVER (PARTITION BY stratum ORDER BY draw, key) AS last_id
    FROM drawn
)
SELECT row_id, CASE WHEN place % 2 = 1 THEN COALESCE(next_id, row_id) ELSE last_id END AS partner
FROM placed
