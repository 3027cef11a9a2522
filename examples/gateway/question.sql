SELECT extract(month FROM ordered) AS month, count(*) AS orders FROM orders GROUP BY extract(month FROM ordered)
