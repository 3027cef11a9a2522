-- Projections of an adversary that are a part of one projection, or that it is a part of, places in their order, with
-- how many visits must go to make both equal: those that lack, for each person with the longer one.
-- param: adversary integer >= 0: whose projections
-- param: projection text: the one to compare with
SELECT projection, persons, cost
FROM (
    SELECT
        projection,
        persons,
        CASE
            WHEN LENGTH(REPLACE(projection, ',,', ', ,')) - LENGTH(projection)
                > LENGTH(REPLACE(:projection, ',,', ', ,')) - LENGTH(:projection) THEN persons
            ELSE own
        END
        * ABS(
            LENGTH(REPLACE(projection, ',,', ', ,')) - LENGTH(projection)
            - LENGTH(REPLACE(:projection, ',,', ', ,')) + LENGTH(:projection)
        ) AS cost
    FROM (
        SELECT
            projection,
            persons,
            SUM(CASE WHEN projection = :projection THEN persons ELSE 0 END) OVER () AS own
        FROM projection_sizes
        WHERE adversary = :adversary
    ) AS listed
    WHERE projection <> :projection
        AND (
            projection LIKE '%' || REPLACE(:projection, ',,', ',%,') || '%'
            OR :projection LIKE '%' || REPLACE(projection, ',,', ',%,') || '%'
        )
) AS nested
ORDER BY cost, LENGTH(projection), projection
LIMIT 1
