-- Contributors who are alone in a cell, by number.
SELECT lone AS contributor, ROW_NUMBER() OVER (ORDER BY lone) AS number
FROM (SELECT DISTINCT lone FROM cells WHERE lone IS NOT NULL) AS alone
