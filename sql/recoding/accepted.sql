-- For each parent the donation that costs least, among those after which parent and child hold: the rows to give.
-- verdicts(class_id, broken): over the classes of donated.sql.
WITH sound AS (
    SELECT class_id - MOD(class_id, 2) AS class_id
    FROM verdicts
    GROUP BY class_id - MOD(class_id, 2)
    HAVING MAX(broken) = 0
),
ranked AS (
    SELECT
        d.donation,
        ROW_NUMBER() OVER (
            PARTITION BY d.parent ORDER BY SUM(d.given) * MAX(c.saved / c.rows_), SUM(d.given), d.donation
        ) AS place
    FROM donations AS d
    JOIN sound AS s ON s.class_id = 2 * d.donation
    JOIN children AS c ON c.child_id = d.child
    GROUP BY d.donation, d.parent
)
SELECT d.parent, d.child, d.value, d.given
FROM donations AS d
JOIN ranked AS r ON r.donation = d.donation
WHERE r.place = 1 AND d.given > 0
