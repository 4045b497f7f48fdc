-- +goose Up
-- How many orders a sale has had.
ALTER TABLE sales ADD COLUMN placed bigint NOT NULL DEFAULT 0;
UPDATE sales SET placed = (SELECT count(*) FROM movements WHERE movements.sale = sales.id AND movements.kind = 'sold');

-- The figures of sales over time. A row has the admissions since the row before it, and the
-- other figures as they are at the time. Rows are merged.
CREATE TABLE curves (
    sale     text   NOT NULL REFERENCES sales (id),
    at       bigint NOT NULL,
    admitted bigint NOT NULL CHECK (admitted >= 0),
    reserved bigint NOT NULL,
    paid     bigint NOT NULL,
    waiting  bigint,
    free     bigint NOT NULL,
    PRIMARY KEY (sale, at)
);
