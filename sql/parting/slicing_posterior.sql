-- The largest probability with which a sliced table links a record of the source to a sensitive value.
-- cite: Li, Li, Zhang and Molloy 2012, Slicing: a new approach for privacy preserving data publishing
-- param: parts integer: into how many parts the columns were cut
-- param: secret_part integer: the part that holds the sensitive column
-- tuples(tuple_id, part, value): the records of the source, by the values of each part, without the sensitive one.
-- cells(part, bucket, value, n): how many rows of a bucket have these values in a part; sizes(bucket, n): all of them.
-- secrets(bucket, value, secret, n): the same with the sensitive value, in the part that holds it.
-- A record may be in every bucket where it matches all parts, with a weight that is the product of the shares of the
-- bucket that match; there it has a sensitive value as often as the rows that match it in that part.
WITH matching AS (
    SELECT t.tuple_id, c.bucket, EXP(SUM(LN(CAST(c.n AS DOUBLE PRECISION) / s.n))) AS weight
    FROM tuples AS t
    JOIN cells AS c ON c.part = t.part AND c.value = t.value
    JOIN sizes AS s ON s.bucket = c.bucket
    GROUP BY t.tuple_id, c.bucket
    HAVING COUNT(*) = :parts
),
whole AS (
    SELECT tuple_id, SUM(weight) AS weight FROM matching GROUP BY tuple_id
),
learned AS (
    SELECT m.tuple_id, x.secret, SUM(m.weight * x.n / c.n) AS weight
    FROM matching AS m
    JOIN tuples AS t ON t.tuple_id = m.tuple_id AND t.part = :secret_part
    JOIN cells AS c ON c.part = t.part AND c.value = t.value AND c.bucket = m.bucket
    JOIN secrets AS x ON x.bucket = m.bucket AND x.value = t.value
    GROUP BY m.tuple_id, x.secret
)
SELECT MAX(l.weight / w.weight) AS measured
FROM learned AS l
JOIN whole AS w ON w.tuple_id = l.tuple_id
