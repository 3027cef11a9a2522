-- How many persons visited a place that an adversary infers from what they know of them.
SELECT COUNT(DISTINCT q.person) AS persons
FROM breached AS b
JOIN inferences AS i ON i.class_id = b.class_id
JOIN projections AS q ON q.adversary = i.adversary AND q.projection = i.projection
JOIN visits AS v ON v.person = q.person AND v.place = i.place
