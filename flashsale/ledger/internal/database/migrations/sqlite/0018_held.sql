-- +goose Up
-- A payment changes the state of an order. So the unique indexes depend on other columns: held is the
-- slot of a pending or paid order, and spent is 1 if the ticket has an order.
ALTER TABLE orders ADD COLUMN held int;
ALTER TABLE orders ADD COLUMN spent int NOT NULL DEFAULT 1;
UPDATE orders SET held = slot WHERE state IN ('pending_pay', 'paid');
UPDATE orders SET spent = 0 WHERE state IN ('rejected', 'lost');
ALTER TABLE orders ADD CONSTRAINT orders_held CHECK ((state IN ('pending_pay', 'paid')) = (held IS NOT NULL) AND (held IS NULL OR held = slot));
ALTER TABLE orders ADD CONSTRAINT orders_spent CHECK (spent = CASE WHEN state IN ('rejected', 'lost') THEN 0 ELSE 1 END);

DROP INDEX orders_ticket;
CREATE UNIQUE INDEX orders_ticket ON orders (sale, ticket) WHERE spent = 1;

-- It also finds the orders of a user, which are few.
DROP INDEX orders_slot;
CREATE UNIQUE INDEX orders_slot ON orders (usr, sale, held);
DROP INDEX orders_user;
