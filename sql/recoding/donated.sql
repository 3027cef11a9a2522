-- The classes that each donation would make: the parent with what it is given (even numbers), and what the child keeps.
SELECT class_id, value, CAST(SUM(n) AS BIGINT) AS n
FROM (
    SELECT 2 * d.donation AS class_id, s.value, s.n
    FROM (SELECT DISTINCT donation, parent FROM donations) AS d
    JOIN split AS s ON s.parent = d.parent AND s.child = 0
    UNION ALL
    SELECT 2 * donation, value, given FROM donations WHERE given > 0
    UNION ALL
    SELECT 2 * donation + 1, value, kept FROM donations WHERE kept > 0
) AS sides
GROUP BY class_id, value
