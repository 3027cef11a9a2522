-- The average risk of the released records is at most `risk`: an attacker who looks for everybody finds no larger share
-- of them. The average is the number of classes divided by the number of records. A class is measured by the average of
-- all classes of its size or larger, so that the worst class shows that of the whole table, and what breaks the model
-- are the smallest classes. A single class may still be found with certainty: ask for k_anonymity, too.
-- cite: El Emam 2013; Prasser and Kohlmayer 2015 (ARX)
-- param: risk number > 0 <= 1: largest average risk, such as 0.09
-- measures: average risk of the records in classes of this size or larger; worse when larger
-- needs: whole_table
-- shapes: rows, entity
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT
        class_id,
        CAST(COUNT(*) OVER (ORDER BY records DESC) AS DOUBLE PRECISION)
        / CAST(SUM(records) OVER (ORDER BY records DESC) AS DOUBLE PRECISION) AS measured
    FROM classes
) AS averages
WHERE measured > :risk + 1e-12
