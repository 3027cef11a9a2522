SELECT count(*) FROM customers WHERE born < 1960;
SELECT product, sum(quantity) FROM items GROUP BY product;
