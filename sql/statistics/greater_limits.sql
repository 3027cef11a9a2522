-- The stricter of two limits of each cell.
SELECT
    limits.cell,
    GREATEST(limits.contributors, COALESCE(other_limits.contributors, 0)) AS contributors,
    GREATEST(limits.amount, other_limits.amount) AS amount
FROM limits AS limits
LEFT JOIN other_limits AS other_limits ON limits.cell = other_limits.cell
