-- Leaves with a NULL on their way to the root.
SELECT leaf AS value, COUNT(*) AS records FROM taxonomy WHERE node IS NULL GROUP BY leaf
