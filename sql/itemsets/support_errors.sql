-- How far the number of persons with two items, as a release tells it, is from what it is: the mean over all pairs that
-- occur of |n - n'| / ((n + n') / 2). The persons of a label are spread evenly over the items that it may stand for.
-- `shown_pairs` has two labels of a person in their order, and a label with itself.
SELECT AVG(ABS(records - told) / ((records + told) / 2)) AS error
FROM (
    SELECT
        p.x1,
        p.x2,
        CAST(MAX(p.records) AS DOUBLE PRECISION) AS records,
        COALESCE(SUM(CAST(s.records AS DOUBLE PRECISION) / (c.leaves * d.leaves)), 0) AS told
    FROM pairs AS p
    LEFT JOIN covers AS c ON c.item = p.x1
    LEFT JOIN covers AS d ON d.item = p.x2
    LEFT JOIN shown_pairs AS s
        ON s.x1 = CASE WHEN c.label <= d.label THEN c.label ELSE d.label END
        AND s.x2 = CASE WHEN c.label <= d.label THEN d.label ELSE c.label END
    GROUP BY p.x1, p.x2
) AS supports
