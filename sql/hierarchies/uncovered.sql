-- Values of the data that the hierarchy does not cover, with the number of their rows.
SELECT v.value, v.records
FROM source_values AS v
WHERE v.value IS NOT NULL AND NOT EXISTS (SELECT 1 FROM taxonomy AS t WHERE t.level = 0 AND t.node = v.value)
