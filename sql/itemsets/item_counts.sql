-- How many persons have an item.
SELECT item, COUNT(*) AS records FROM items GROUP BY item
