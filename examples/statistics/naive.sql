-- A table of which only the one unsafe cell is hidden.
CREATE TABLE naive AS
WITH sums AS (
    SELECT
        coalesce(region, 'Total') AS region,
        coalesce(size, 'Total') AS size,
        sum(turnover) AS turnover
    FROM enterprises
    GROUP BY CUBE (region, size)
)

SELECT region, size, CASE WHEN region = 'EL41' AND size = 'large' THEN NULL ELSE turnover END AS turnover FROM sums;
