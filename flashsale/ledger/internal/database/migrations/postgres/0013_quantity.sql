-- +goose Up
-- How many units an order may have, and how many it has.
ALTER TABLE sales ADD COLUMN max_quantity int NOT NULL DEFAULT 1 CHECK (max_quantity BETWEEN 1 AND per_user);
ALTER TABLE orders ADD COLUMN quantity int NOT NULL DEFAULT 1 CHECK (quantity BETWEEN 1 AND 10);

-- A movement has the units of its order.
ALTER TABLE movements DROP CONSTRAINT movements_check;
ALTER TABLE movements ADD CONSTRAINT movements_check CHECK (
    kind = 'stock' AND units > 0 AND reservation IS NULL AND key IS NOT NULL
    OR kind = 'sold' AND units BETWEEN -10 AND -1 AND reservation IS NOT NULL AND key IS NULL
    OR kind = 'returned' AND units BETWEEN 1 AND 10 AND reservation IS NOT NULL AND key IS NULL);
