-- +goose Up
-- A payment changes the state of an order, but not its place in this index.
DROP INDEX orders_sale;
CREATE INDEX orders_sale ON orders (sale, at, reservation);

-- The movements of a sale are those of its orders, and those with a key.
DROP INDEX movements_sale;

-- Accepted payments are in payments_one.
DROP INDEX payments_reservation;
CREATE INDEX payments_refund_due ON payments (reservation) WHERE state = 'refund_due';
