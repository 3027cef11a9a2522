-- Generated: where 3,000 patients of a hospital were, 40 rides of bicycles, and visits to shops with 600 customer cards.
CREATE MACRO draw(a, b, c, most) AS CAST(hash(a, b, c) % most AS INTEGER);

CREATE TABLE stays AS
SELECT
    patient,
    TIMESTAMP '2026-03-01 08:00' + to_hours(draw(patient, 1, 0, 8) + stop) AS since,
    CASE
        WHEN stop = 0 THEN 'reception'
        WHEN draw(patient, stop, 5, 100) < 2
            THEN ['chapel', 'pharmacy', 'garden', 'morgue'][1 + draw(patient, stop, 6, 4)]
        ELSE ['surgery', 'x-ray', 'ward east', 'ward west'][1 + (draw(patient, 3, 0, 4) + stop * (stop - 1) // 2) % 4]
    END AS ward,
    CASE
        WHEN draw(patient, 7, 0, 12) = 0 THEN 'HIV'
        WHEN draw(patient, 7, 1, 3) = 0 THEN 'fracture'
        ELSE 'influenza'
    END AS disease
FROM (SELECT CAST(i AS INTEGER) AS patient FROM range(1, 3001) AS t(i)), (SELECT CAST(i AS INTEGER) AS stop FROM range(7) AS s(i))
WHERE stop < 3 + draw(patient, 2, 0, 4)
ORDER BY patient, since;

CREATE TABLE rides AS
SELECT
    i AS bicycle,
    TIMESTAMP '2026-03-01 08:00' + to_minutes(5 * j) AS at,
    round(100 * j * cos(i % 4) + 60 * cos(i), 1) AS east,
    round(100 * j * sin(i % 4) + 60 * sin(i), 1) AS north
FROM range(1, 41) AS t(i), range(13) AS s(j);

CREATE TABLE purchases AS
SELECT
    i AS card,
    DATE '2026-03-01' + CAST(j AS INTEGER) AS day,
    ['north market', 'north bakery', 'south market', 'south bakery'][
        1 + (2 * draw(i, 1, 0, 2) + draw(i, j, 4, 2) + CASE WHEN draw(i, j, 2, 12) = 0 THEN 2 ELSE 0 END) % 4
    ] AS shop
FROM range(1, 601) AS t(i), range(4) AS s(j)
WHERE draw(i, j, 3, 3) > 0;
