-- A group of the new release: persons of one group, or newcomers, who are in one class now. Those who are not in the
-- release stay in the group in which they were.
-- param: last integer: the greatest group so far
SELECT group_id, class_id, :last + ROW_NUMBER() OVER (ORDER BY group_id, class_id) AS next_id
FROM moves
WHERE class_id IS NOT NULL
GROUP BY group_id, class_id
