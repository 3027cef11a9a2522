-- Who has which of the chosen items.
SELECT i.person, i.item FROM items AS i JOIN chosen AS c ON c.item = i.item
