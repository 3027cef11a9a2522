-- Non-uniform entropy: for each value the bits that are lost by not knowing which of the original values it was,
-- given how frequent they are; suppressed records lose the entropy of their generalized values as well.
-- cite: Gionis and Tassa 2009; de Waal and Willenborg 1999
-- measures: bits over all cells; worse when larger
-- monotone: yes; not with suppression
-- traits: levels
WITH recoding AS (
    SELECT
        attribute,
        records,
        SUM(records) OVER (PARTITION BY attribute, label) AS of_label,
        SUM(records) OVER (PARTITION BY attribute, value) AS of_value
    FROM recoded_values
),
hidden AS (
    SELECT attribute, label, CAST(SUM(records) AS DOUBLE PRECISION) AS records
    FROM recoded_values
    WHERE kept = 0
    GROUP BY attribute, label
),
hidden_bits AS (
    SELECT attribute, SUM(records) * LN(SUM(records)) - SUM(records * LN(records)) AS nats
    FROM hidden
    GROUP BY attribute
)
SELECT (r.nats + h.nats) / LN(CAST(2 AS DOUBLE PRECISION)) AS loss
FROM (
    SELECT SUM(records * LN(CAST(of_label AS DOUBLE PRECISION) / of_value)) AS nats FROM recoding
) AS r
CROSS JOIN (SELECT COALESCE(SUM(nats), 0) AS nats FROM hidden_bits) AS h
