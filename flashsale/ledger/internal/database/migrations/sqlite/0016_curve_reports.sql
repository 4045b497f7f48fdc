-- +goose Up
-- What the processes have reported of the admissions in curves, so that a repeated report adds nothing.
CREATE TABLE curve_reports (
    sale     text   NOT NULL REFERENCES sales (id),
    process  text   NOT NULL,
    admitted bigint NOT NULL,
    PRIMARY KEY (sale, process)
);
