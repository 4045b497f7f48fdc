-- +goose Up
-- The state of keys. docs/postgresql.md describes the columns.

CREATE TABLE weir_states (
    name         text COLLATE "C" PRIMARY KEY, -- PREFIX:KEY LIMIT
    words        bigint[] NOT NULL,            -- of the limit's algorithm
    last         bigint   NOT NULL,            -- the instant of the latest write, µs since 1970
    ahead        bigint   NOT NULL DEFAULT 0,  -- µs by which the clock had been set back
    rule         text,                         -- the limit that wrote the words, if the name does not contain it
    reservations text,                         -- JSON
    version      bigint   NOT NULL,            -- another one after every write
    expires      bigint   NOT NULL             -- the instant from which the row equals none, µs
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE SEQUENCE weir_versions CACHE 64;
CREATE SEQUENCE weir_sweeps CACHE 64; -- the pages that were swept

CREATE TABLE weir_seed (
    seed bytea NOT NULL CHECK (length(seed) = 16) -- of the hashes of reservations; secret
);
CREATE UNIQUE INDEX weir_seed_once ON weir_seed ((true));
INSERT INTO weir_seed VALUES (decode(replace(gen_random_uuid()::text, '-', ''), 'hex'));

-- +goose StatementBegin
CREATE FUNCTION weir_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
-- +goose StatementEnd

-- weir_read returns one row for each name, in their order, with the instant of the server.
-- +goose StatementBegin
CREATE FUNCTION weir_read(names text[])
RETURNS TABLE (now bigint, words bigint[], last bigint, ahead bigint, rule text, reservations text, version bigint)
LANGUAGE sql VOLATILE SET enable_seqscan = off AS $$
    SELECT weir_now(), s.words, s.last, s.ahead, s.rule, s.reservations, s.version
    FROM unnest(names) WITH ORDINALITY n (name, i) LEFT JOIN weir_states s ON s.name = n.name COLLATE "C"
    ORDER BY n.i
$$;
-- +goose StatementEnd

-- weir_lock locks the row of a name, and inserts one without words if there is none. It
-- reports whether it inserted one. Callers lock rows in the order of their names.
-- +goose StatementBegin
CREATE FUNCTION weir_lock(INOUT s weir_states, OUT inserted boolean) LANGUAGE plpgsql AS $$
DECLARE
    n text := s.name;
BEGIN
    inserted := false;
    LOOP
        SELECT * INTO s FROM weir_states t WHERE t.name = n FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO weir_states VALUES (n, '{}', 0, 0, NULL, NULL, 0, 0) ON CONFLICT DO NOTHING RETURNING * INTO s;
        IF FOUND THEN
            inserted := true;
            EXIT;
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- weir_sweep deletes expired rows of a few pages: two for each inserted row, on average, of
-- eight. So the rows that expired stay fewer than those in use.
-- +goose StatementBegin
CREATE FUNCTION weir_sweep(inserted int, clock bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    pages bigint;
    page  bigint;
BEGIN
    IF inserted = 0 OR random() * 8 >= inserted THEN
        RETURN;
    END IF;
    pages := pg_relation_size('weir_states') / current_setting('block_size')::bigint;
    page := nextval('weir_sweeps') * 2 % greatest(pages, 1);
    DELETE FROM weir_states WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM weir_states
        WHERE ctid >= ('(' || page || ',0)')::tid AND ctid < ('(' || page + 2 || ',0)')::tid AND expires < clock
        FOR UPDATE SKIP LOCKED
    ));
END
$$;
-- +goose StatementEnd

-- weir_swap writes rows if none of them was written since it was read: versions are those that
-- weir_read returned, 0 for none. It reports whether it wrote. Words that are
-- null delete a row, and empty ones leave it.
-- +goose StatementBegin
CREATE FUNCTION weir_swap(clock bigint, names text[], versions bigint[], words text[], lasts bigint[], aheads bigint[],
    rules text[], held text[], expire bigint[])
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    r        record;
    s        weir_states;
    new_rows text[] := '{}';
    same     boolean := true;
BEGIN
    FOR i IN 1 .. array_length(names, 1) LOOP
        s.name := names[i];
        SELECT * INTO r FROM weir_lock(s) l;
        IF r.inserted THEN
            new_rows := new_rows || names[i];
        END IF;
        IF (r.s).version <> versions[i] THEN
            same := false;
            EXIT;
        END IF;
    END LOOP;
    IF NOT same THEN
        DELETE FROM weir_states t WHERE t.name = ANY (new_rows);
        RETURN false;
    END IF;
    FOR i IN 1 .. array_length(names, 1) LOOP
        IF words[i] IS NULL THEN
            DELETE FROM weir_states t WHERE t.name = names[i];
        ELSIF words[i] <> '' THEN
            UPDATE weir_states t SET words = weir_swap.words[i]::bigint[], last = lasts[i], ahead = aheads[i], rule = rules[i],
                reservations = held[i], version = nextval('weir_versions'), expires = expire[i]
            WHERE t.name = names[i];
        END IF;
    END LOOP;
    PERFORM weir_sweep(cardinality(new_rows), CASE clock WHEN 0 THEN weir_now() ELSE clock END);
    RETURN true;
END
$$;
-- +goose StatementEnd
