-- +goose Up
-- The units that a sale is to get back are read for each sale.
-- The table is locked first, so that processes that migrate at once do not deadlock.
LOCK TABLE orders;
DROP INDEX orders_unreturned;
CREATE INDEX orders_unreturned ON orders (sale, changed) WHERE state IN ('expired', 'cancelled') AND returned = 0;
