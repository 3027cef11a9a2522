-- Cells with the contributors who are in several of them. Where not all of these were looked at, there are as many as the
-- limit says, at least, and it is taken for granted that one did not waive protection.
-- param: fewest integer >= 2: from how many contributors on no rule cares how many there are
SELECT
    sums.cell,
    sums.records,
    GREATEST(sums.contributors + COALESCE(other_sums.contributors, 0), limits.contributors) AS contributors,
    GREATEST(
        sums.protected + COALESCE(other_sums.protected, 0), CASE WHEN limits.contributors >= :fewest THEN 1 ELSE 0 END
    ) AS protected,
    sums.value,
    COALESCE(sums.lone, other_sums.lone) AS lone
FROM sums AS sums
LEFT JOIN other_sums AS other_sums ON sums.cell = other_sums.cell
LEFT JOIN limits AS limits ON sums.cell = limits.cell
