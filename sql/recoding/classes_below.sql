-- The classes after a step, numbered after those before: parent and child of split, and their number.
-- param: before integer: the largest number in use
SELECT parent, child, :before + ROW_NUMBER() OVER (ORDER BY parent, child) AS class_id
FROM (SELECT DISTINCT parent, child FROM split) AS found
