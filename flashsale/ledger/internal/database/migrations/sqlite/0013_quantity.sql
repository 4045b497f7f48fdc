-- +goose Up
-- How many units an order may have, and how many it has.
ALTER TABLE sales ADD COLUMN max_quantity int NOT NULL DEFAULT 1 CHECK (max_quantity BETWEEN 1 AND per_user);
ALTER TABLE orders ADD COLUMN quantity int NOT NULL DEFAULT 1 CHECK (quantity BETWEEN 1 AND 10);

-- A movement has the units of its order. SQLite changes no constraint of a table.
CREATE TABLE movements_of_orders (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    sale        text   NOT NULL REFERENCES sales (id),
    kind        text   NOT NULL,
    units       bigint NOT NULL,
    reservation text   REFERENCES orders (reservation),
    key         text,
    at          bigint NOT NULL,
    CHECK (kind = 'stock' AND units > 0 AND reservation IS NULL AND key IS NOT NULL
        OR kind = 'sold' AND units BETWEEN -10 AND -1 AND reservation IS NOT NULL AND key IS NULL
        OR kind = 'returned' AND units BETWEEN 1 AND 10 AND reservation IS NOT NULL AND key IS NULL)
);
INSERT INTO movements_of_orders (id, sale, kind, units, reservation, key, at)
    SELECT id, sale, kind, units, reservation, key, at FROM movements ORDER BY id;
DROP TABLE movements;
ALTER TABLE movements_of_orders RENAME TO movements;
CREATE UNIQUE INDEX movements_once ON movements (reservation, kind) WHERE reservation IS NOT NULL;
CREATE UNIQUE INDEX movements_key ON movements (sale, key) WHERE key IS NOT NULL;
CREATE INDEX movements_sale ON movements (sale);
