-- Cells as sums of what was brought to them. Whoever is alone in one is `lone`.
SELECT
    cell,
    SUM(records) AS records,
    COUNT(*) AS contributors,
    SUM(1 - waived) AS protected,
    SUM(amount * weight) AS value,
    MIN(contributor) AS lone
FROM contributions
GROUP BY cell
