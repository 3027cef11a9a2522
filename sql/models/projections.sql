-- Whoever knows some places of a journey, in the order of time, infers no other place of it with more than p. Each
-- adversary has places of their own, such as the shops of one chain, and knows of all visits to them; they find the
-- persons with the same visits, and see where else these were. Says nothing of who is found: a journey may be alone.
-- Times are not used but for the order. A place that most persons visit is inferred from nothing, and breaks it.
-- cite: Terrovitis and Mamoulis 2008
-- param: p number > 0 <= 1: largest probability with which an adversary infers a place
-- param: owners map: adversary to the list of the places that they know of
-- measures: probability of a place that an adversary infers; worse when larger
-- needs: visits
-- shapes: sequence
-- monotone: no
SELECT class_id, measured
FROM (
    SELECT class_id, CAST(matching AS DOUBLE PRECISION) / records AS measured FROM inferences
) AS shares
WHERE measured > :p + 1e-12
