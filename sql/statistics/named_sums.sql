-- Values of the finest cells from contributors who are in several, who are there by number: how many they are is counted
-- elsewhere.
SELECT
    sums.cell,
    sums.records,
    0 AS contributors,
    0 AS protected,
    sums.value,
    spread_contributors.contributor AS lone
FROM sums AS sums
LEFT JOIN spread_contributors AS spread_contributors ON sums.lone = spread_contributors.number
