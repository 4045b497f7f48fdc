-- +goose Up
-- The journal of an inventory in this process: reservations that are not orders yet. A row has those
-- that were made at once, as a JSON array, and is deleted when all of them are orders.
CREATE TABLE journal (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    sale         text    NOT NULL,
    epoch        bigint  NOT NULL,
    reservations text    NOT NULL
);
CREATE INDEX journal_sale ON journal (sale);
INSERT INTO journal (sale, epoch, reservations) SELECT sale, epoch, '[' || reservation || ']' FROM stream ORDER BY id;
DROP TABLE stream;
