-- Who has which node of a cut, once. An item that is in no row of `cut` is left out.
SELECT DISTINCT i.person, c.node AS item FROM items AS i JOIN cut AS c ON c.item = i.item
