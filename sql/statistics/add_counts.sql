-- Cells with the contributors who are in several of them. Where not all of these were looked at, there are as many as the
-- limit says, at least, and it is taken for granted that one did not waive protection. Whoever is alone in a cell is alone
-- in the parts of it that are not empty, so that `lone` is known from these.
-- param: fewest integer >= 2: from how many contributors on no rule cares how many there are
SELECT
    sums.cell,
    sums.records,
    GREATEST(sums.contributors + COALESCE(counts.contributors, 0), limits.contributors) AS contributors,
    GREATEST(
        sums.protected + COALESCE(counts.protected, 0), CASE WHEN limits.contributors >= :fewest THEN 1 ELSE 0 END
    ) AS protected,
    sums.value,
    sums.lone
FROM sums AS sums
LEFT JOIN counts AS counts ON sums.cell = counts.cell
LEFT JOIN limits AS limits ON sums.cell = limits.cell
