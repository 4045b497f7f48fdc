-- +goose Up
-- The rows of the ledger of shares. docs/shares.md describes shares.

CREATE TABLE weir_shares (
    name    bytea  PRIMARY KEY, -- PREFIX:NAME
    data    bytea  NOT NULL,    -- of package share
    version bigint NOT NULL,    -- another one after every write
    expires bigint NOT NULL     -- the instant from which the row may be deleted, µs
);
CREATE INDEX weir_shares_expires ON weir_shares (expires);

-- weir_load_shares returns one row for each name, in their order, with the instant of the server.
-- +goose StatementBegin
CREATE FUNCTION weir_load_shares(names bytea[]) RETURNS TABLE (now bigint, version bigint, data bytea)
LANGUAGE sql VOLATILE SET enable_seqscan = off AS $$
    SELECT weir_now(), s.version, s.data
    FROM unnest(names) WITH ORDINALITY n (name, i) LEFT JOIN weir_shares s ON s.name = n.name
    ORDER BY n.i
$$;
-- +goose StatementEnd

-- weir_swap_shares writes rows whose versions are as given, 0 for none, each by itself. Names are in
-- order, and keeps are µs. It reports which rows it wrote, and deletes up to four rows that have
-- expired.
-- +goose StatementBegin
CREATE FUNCTION weir_swap_shares(names bytea[], versions bigint[], datas bytea[], keeps bigint[]) RETURNS boolean[]
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    done  boolean[] := '{}';
    clock bigint;
BEGIN
    FOR i IN 1 .. cardinality(names) LOOP
        IF versions[i] = 0 THEN
            INSERT INTO weir_shares VALUES (names[i], datas[i], nextval('weir_versions'), weir_now() + keeps[i])
            ON CONFLICT DO NOTHING;
        ELSE
            UPDATE weir_shares s SET data = datas[i], version = nextval('weir_versions'), expires = weir_now() + keeps[i]
            WHERE s.name = names[i] AND s.version = versions[i];
        END IF;
        done[i] := FOUND;
    END LOOP;
    clock := weir_now();
    DELETE FROM weir_shares WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM weir_shares WHERE expires < clock ORDER BY expires LIMIT 4 FOR UPDATE SKIP LOCKED
    ));
    RETURN done;
END
$$;
-- +goose StatementEnd
