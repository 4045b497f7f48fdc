-- +goose Up
-- The state of keys.

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

-- weir_sweep deletes expired rows in two pages for every eight rows that were inserted: more
-- pages than those rows fill, so a bounded number of expired rows is left.
-- +goose StatementBegin
CREATE FUNCTION weir_sweep(inserted int, clock bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    pages bigint;
    page  bigint;
BEGIN
    IF random() * 8 >= inserted THEN
        RETURN;
    END IF;
    pages := greatest(1, pg_relation_size('weir_states') / current_setting('block_size')::bigint);
    FOR i IN 1 .. least((inserted + 7) / 8, pages / 2 + 1) LOOP
        page := nextval('weir_sweeps') * 2 % pages;
        DELETE FROM weir_states WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM weir_states
            WHERE ctid >= ('(' || page || ',0)')::tid AND ctid < ('(' || page + 2 || ',0)')::tid AND expires < clock
            FOR UPDATE SKIP LOCKED
        ));
    END LOOP;
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

-- The rest decides requests as internal/algo does, number for number. A rule is a function of a
-- state and a request, named after its Go twin, which has the idea and the formula. Its numbers
-- are those of Params, from 1. op is 0 take, 1 take up to, 2 peek, 3 charge, 4 return; instants
-- are µs, n tokens. A retry of -1 is never. Divisions round towards zero, as in Go, and what can
-- exceed 64 bits is numeric.
CREATE TYPE weir_result AS (
    ok boolean, granted bigint, balance bigint, retry bigint, reset bigint, delay bigint,
    s  bigint[] -- the state after it; empty if as if never used
);

-- weir_div is ⌊a·b/c⌋, at most most. It requires a, b ≥ 0 and c > 0.
-- +goose StatementBegin
CREATE FUNCTION weir_div(a bigint, b bigint, c bigint, most bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF b = 0 OR a <= 4611686018427387904 / b THEN
        RETURN least(a * b / c, most);
    END IF;
    RETURN least(div(a::numeric * b, c), most);
END
$$;
-- +goose StatementEnd

-- weir_tokens is the whole tokens in a time of us µs and rem units of 1/k µs, rounded down.
-- +goose StatementBegin
CREATE FUNCTION weir_tokens(us bigint, rem bigint, k bigint, q bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF rem < 0 THEN
        us := us - 1;
        rem := rem + k;
    END IF;
    IF us >= 0 AND us < 4611686018427387904 / k THEN
        RETURN (us * k + rem) / q;
    END IF;
    RETURN greatest(-1099511627776, least(1099511627776, floor((us::numeric * k + rem) / q)));
END
$$;
-- +goose StatementEnd

-- Twin of token_bucket.go and leaky_bucket.go. Params: k, T as µs and units, burst, its cost as
-- µs and units, the most tokens of one charge; of a leaky bucket also whether it is a queue, and
-- (1 + free)·T as µs and units.
-- +goose StatementBegin
CREATE FUNCTION weir_token_bucket(s bigint[], p bigint[], op bigint, now bigint, n bigint) RETURNS weir_result
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    r    weir_result;
    k    bigint := p[1];
    q    bigint := p[2] * k + p[3];
    d    bigint := coalesce(s[1], 0) - now; -- what is owed
    dr   bigint := coalesce(s[2], 0);
    m    bigint := least(n, p[7]);
    c    bigint;
    cr   bigint;
    t    bigint;
    tr   bigint;
    part numeric;
BEGIN
    IF d < 0 THEN
        d := 0;
        dr := 0;
    END IF;
    r.ok := true;
    r.granted := 0;
    r.retry := 0;
    r.delay := 0;
    IF op = 1 THEN
        m := least(n, greatest(0, weir_tokens(p[5] - d, p[6] - dr, k, q)));
        IF m = 0 AND n > 0 THEN
            r.ok := false;
            m := 1;
        END IF;
    END IF;
    IF m <= 1 THEN
        c := m * p[2];
        cr := m * p[3];
    ELSIF p[3] = 0 OR m <= 9007199254740991 / p[3] THEN
        c := m * p[2] + m * p[3] / k;
        cr := m * p[3] % k;
    ELSE
        part := m::numeric * p[3];
        c := m * p[2] + div(part, k);
        cr := mod(part, k);
    END IF;
    t := d + c;
    tr := dr + cr;
    IF tr >= k THEN
        t := t + 1;
        tr := tr - k;
    END IF;
    IF op <= 2 THEN
        IF n > p[4] AND op <> 1 THEN
            r.ok := false;
            r.retry := -1;
        ELSIF n > 0 AND (t > p[5] OR t = p[5] AND tr > p[6]) THEN
            r.ok := false;
            r.retry := t - p[5] + CASE WHEN tr > p[6] THEN 1 ELSE 0 END;
        ELSIF r.ok THEN
            IF p[8] = 1 AND m > 0 THEN
                r.delay := greatest(0, t - p[9] + CASE WHEN tr > p[10] THEN 1 ELSE 0 END);
            END IF;
            IF op <> 2 THEN
                d := t;
                dr := tr;
                r.granted := m;
            END IF;
        END IF;
    ELSIF op = 3 THEN
        r.granted := n;
        IF t < 3155760000000000 THEN
            d := t;
            dr := tr;
        ELSIF d < 3155760000000000 THEN
            d := 3155760000000000;
            dr := 0;
        END IF;
    ELSE
        d := d - c;
        dr := dr - cr;
        IF dr < 0 THEN
            d := d - 1;
            dr := dr + k;
        END IF;
        IF d < 0 THEN
            d := 0;
            dr := 0;
        END IF;
    END IF;
    r.balance := weir_tokens(p[5] - d, p[6] - dr, k, q);
    r.reset := d + CASE WHEN dr > 0 THEN 1 ELSE 0 END;
    r.s := CASE WHEN r.reset = 0 THEN '{}' ELSE ARRAY[now + d, dr] END;
    RETURN r;
END
$$;
-- +goose StatementEnd

-- Twin of interval_bucket.go. Params: count, period, burst, whether periods begin at the epoch,
-- the most tokens that can be missing.
-- +goose StatementBegin
CREATE FUNCTION weir_interval_bucket(s bigint[], p bigint[], op bigint, now bigint, n bigint) RETURNS weir_result
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    r       weir_result;
    start   bigint := coalesce(s[1], 0);
    missing bigint := coalesce(s[2], 0);
    m       bigint := n;
    j       bigint := (now - start) / p[2];
BEGIN
    IF missing > 0 AND j > 0 THEN
        IF j >= (missing + p[1] - 1) / p[1] THEN
            missing := 0;
        ELSE
            start := start + j * p[2];
            missing := missing - j * p[1];
        END IF;
    END IF;
    IF missing <= 0 THEN
        missing := 0;
        start := CASE p[4] WHEN 1 THEN now - now % p[2] ELSE now END;
    END IF;
    r.ok := true;
    r.granted := 0;
    r.retry := 0;
    r.delay := 0;
    IF op <= 2 THEN
        IF op = 1 THEN
            m := least(n, greatest(0, p[3] - missing));
            IF m = 0 AND n > 0 THEN
                m := 1;
            END IF;
        END IF;
        IF m > p[3] THEN
            r.ok := false;
            r.retry := -1;
        ELSIF m > 0 AND m > p[3] - missing THEN
            r.ok := false;
            r.retry := start + (missing + m - p[3] + p[1] - 1) / p[1] * p[2] - now;
        ELSIF op <> 2 THEN
            missing := missing + m;
            r.granted := m;
        END IF;
    ELSIF op = 3 THEN
        missing := least(p[5], missing + least(n, 1099511627776));
        r.granted := n;
    ELSE
        missing := greatest(0, missing - n);
    END IF;
    r.balance := p[3] - missing;
    r.reset := CASE WHEN missing > 0 THEN greatest(0, start + (missing + p[1] - 1) / p[1] * p[2] - now) ELSE 0 END;
    r.s := CASE WHEN missing = 0 THEN '{}' ELSE ARRAY[start, missing] END;
    RETURN r;
END
$$;
-- +goose StatementEnd

-- Twin of limit_req.go. Params: thousandths of a request per second, (burst + 1)·1000, the
-- largest backlog, whether it is a queue, (1 + free)·1000.
-- +goose StatementBegin
CREATE FUNCTION weir_limit_req(s bigint[], p bigint[], op bigint, now bigint, n bigint) RETURNS weir_result
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    r       weir_result;
    at      bigint := greatest(1, now / 1000);
    was     bigint := coalesce(s[1], 0);
    stored  bigint := coalesce(s[2], 0);
    last    bigint := was;
    backlog bigint := stored;
    after   bigint;
    m       bigint := n;
    ms      bigint := 0;
BEGIN
    IF backlog = 0 THEN
        last := at;
    ELSE
        ms := at - last;
        ms := CASE WHEN ms < -60000 THEN 1 WHEN ms < 0 THEN 0 ELSE ms END;
    END IF;
    IF ms < (backlog * 1000 + p[1] - 1) / p[1] THEN
        backlog := greatest(0, backlog - p[1] * ms / 1000);
    ELSE
        backlog := 0;
    END IF;
    r.ok := true;
    r.granted := 0;
    r.retry := 0;
    r.delay := 0;
    after := backlog;
    IF n = 0 THEN
        op := 2;
    END IF;
    IF op <= 2 THEN
        IF op = 1 THEN
            m := least(n, greatest(0, floor((p[2] - backlog) / 1000.0)));
            IF m = 0 AND n > 0 THEN
                m := 1;
            END IF;
        END IF;
        IF m > p[2] / 1000 THEN
            r.ok := false;
            r.retry := -1;
        ELSIF m > 0 AND backlog + m * 1000 > p[2] THEN
            r.ok := false;
            r.retry := (was + ((stored + m * 1000 - p[2]) * 1000 + p[1] - 1) / p[1]) * 1000 - now;
        ELSE
            after := after + m * 1000;
            IF p[4] = 1 AND m > 0 AND after > p[5] THEN
                r.delay := (after - p[5]) * 1000 / p[1] * 1000;
            END IF;
            IF op = 2 THEN
                after := backlog;
            ELSE
                r.granted := m;
            END IF;
        END IF;
    ELSIF op = 3 THEN
        after := greatest(backlog, least(p[3], backlog + least(n, 1099511627776) * 1000));
        r.granted := n;
    ELSE
        after := greatest(0, backlog - least(n, 1099511627776) * 1000);
    END IF;
    r.balance := floor((p[2] - after) / 1000.0);
    IF NOT r.ok OR op = 2 THEN
        r.reset := CASE WHEN stored = 0 THEN 0 ELSE greatest(0, (was + (stored * 1000 + p[1] - 1) / p[1]) * 1000 - now) END;
        r.s := s;
    ELSIF after = 0 THEN
        r.reset := 0;
        r.s := '{}';
    ELSE
        IF ms <> 0 THEN
            last := at;
        END IF;
        r.reset := (last + (after * 1000 + p[1] - 1) / p[1]) * 1000 - now;
        r.s := ARRAY[last, after];
    END IF;
    RETURN r;
END
$$;
-- +goose StatementEnd

-- Twin of fixed_window.go. Params: count, period, whether windows begin at the epoch; of a
-- calendar count, 0 and the ends of five windows in order. The result is null if now is in none.
-- +goose StatementBegin
CREATE FUNCTION weir_fixed_window(s bigint[], p bigint[], op bigint, now bigint, n bigint, at bigint) RETURNS weir_result
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    r    weir_result;
    fin  bigint := coalesce(s[1], 0);
    used bigint := coalesce(s[2], 0);
    m    bigint := n;
    most bigint := 2199023255552;
BEGIN
    IF p[2] = 0 AND (now < p[3] OR now >= p[7]) THEN
        RETURN NULL;
    END IF;
    IF fin <= now THEN
        fin := 0;
        used := 0;
    END IF;
    r.ok := true;
    r.granted := 0;
    r.retry := 0;
    r.delay := 0;
    IF op = 4 THEN
        IF at = 0 OR fin - p[2] <= at AND at < fin THEN
            used := used - least(used, n);
        END IF;
    ELSE
        IF op = 1 THEN
            m := least(n, greatest(0, p[1] - used));
            IF m = 0 AND n > 0 THEN
                m := 1;
            END IF;
        END IF;
        IF op <> 3 AND m > 0 AND m > p[1] - used THEN
            r.ok := false;
            r.retry := CASE WHEN m > p[1] THEN -1 ELSE fin - now END;
        ELSIF op <> 2 THEN
            r.granted := m;
            IF m > 0 THEN
                IF fin = 0 THEN
                    fin := CASE
                        WHEN p[2] > 0 AND p[3] = 1 THEN (now / p[2] + 1) * p[2]
                        WHEN p[2] > 0 THEN now + p[2]
                        WHEN now < p[4] THEN p[4] WHEN now < p[5] THEN p[5] WHEN now < p[6] THEN p[6] ELSE p[7]
                    END;
                END IF;
                used := CASE WHEN m > most - used THEN most ELSE used + m END;
            END IF;
        END IF;
    END IF;
    r.balance := p[1] - used;
    r.reset := CASE WHEN used > 0 THEN fin - now ELSE 0 END;
    r.s := CASE WHEN used = 0 THEN '{}' ELSE ARRAY[fin, used] END;
    RETURN r;
END
$$;
-- +goose StatementEnd

-- Twin of sliding_window.go. Params: count, length of a segment, segments that count in full,
-- segments of the state, the largest count of a segment.
-- +goose StatementBegin
CREATE FUNCTION weir_sliding_window(s bigint[], p bigint[], op bigint, now bigint, n bigint, at bigint) RETURNS weir_result
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    r       weir_result;
    length  bigint := p[2];
    full_   int := p[3];
    ring    int := p[4];
    newest  bigint := coalesce(s[1], 0) - 1;
    current bigint := greatest(newest, now / length);
    back    bigint := current - newest;
    elapsed bigint := greatest(0, now - current * length);
    a       bigint[] := array_fill(0::bigint, ARRAY[ring]); -- by age, the current segment first
    sum     bigint := 0;
    old     bigint := 0; -- the segment that counts in part
    bal     bigint;
    m       bigint := n;
    g       bigint;
    room    bigint;
    share   bigint;
    part    bigint;
BEGIN
    IF back < ring THEN
        FOR i IN back + 1 .. ring LOOP
            a[i] := coalesce(s[i - back + 1], 0);
        END LOOP;
    END IF;
    FOR pass IN 1 .. 2 LOOP -- again after a return
        sum := 0;
        FOR i IN 1 .. full_ LOOP
            sum := sum + a[i];
        END LOOP;
        bal := p[1] - sum;
        IF ring > full_ THEN
            old := a[ring];
            bal := bal - CASE WHEN old = 0 THEN 0
                ELSE ceil(old::numeric * (length - elapsed) / length)::bigint END;
        END IF;
        EXIT WHEN op <> 4 OR pass = 2;
        IF at <> 0 THEN
            g := current - at / length;
            IF at > 0 AND g >= 0 AND g < ring THEN
                a[g + 1] := a[g + 1] - least(a[g + 1], n);
            END IF;
        ELSE
            m := n;
            FOR i IN 1 .. ring LOOP
                g := least(a[i], m);
                a[i] := a[i] - g;
                m := m - g;
            END LOOP;
        END IF;
    END LOOP;
    r.ok := true;
    r.granted := 0;
    r.retry := 0;
    r.delay := 0;
    IF op <> 4 THEN
        IF op = 1 THEN
            m := least(n, greatest(0, bal));
            IF m = 0 AND n > 0 THEN
                m := 1;
            END IF;
        END IF;
        IF op <> 3 AND m > 0 AND m > bal THEN
            r.ok := false;
            IF m > p[1] THEN
                r.retry := -1;
            ELSE
                room := p[1] - m - sum;
                FOR k IN 0 .. ring LOOP
                    IF room >= 0 THEN
                        share := length;
                        part := coalesce(a[full_ - k + 1], 0);
                        IF ring > full_ AND part > room THEN
                            share := weir_div(room, length, part, length);
                        END IF;
                        r.retry := (current + k + 1) * length - share - now;
                        EXIT;
                    END IF;
                    room := room + coalesce(a[full_ - k], 0);
                END LOOP;
            END IF;
        ELSIF op <> 2 THEN
            r.granted := m;
            IF m > 0 THEN
                g := CASE WHEN m > p[5] - a[1] THEN p[5] ELSE a[1] + m END;
                bal := bal - (g - a[1]);
                a[1] := g;
            END IF;
        END IF;
    END IF;
    r.balance := bal;
    r.reset := 0;
    FOR i IN 1 .. ring LOOP
        IF a[i] > 0 THEN
            r.reset := greatest(0, (current + 1 - i + ring) * length - now);
            EXIT;
        END IF;
    END LOOP;
    r.s := CASE WHEN r.reset = 0 THEN '{}' ELSE (current + 1) || a END;
    RETURN r;
END
$$;
-- +goose StatementEnd

-- weir_decide decides groups of requests, one group after the other, each all or nothing, at one
-- instant.
--
--   clock       µs; 0: the clock of the server
--   names       of the rows, in order
--   rules       the column rule of each limit
--   named       whether words of another rule differ
--   algorithms  of each limit
--   params, starts  the numbers of each limit begin after params[starts[i]]
--   requests    five numbers each: the row, the limit, op, n, the instant of the charge to return
--   sizes       of the groups
--
-- It returns the instant, and six numbers for each request: 0 denied, 1 OK or 5 not decided, as
-- all requests of its group; granted, balance, retry, reset, delay.
-- +goose StatementBegin
CREATE FUNCTION weir_decide(clock bigint, names text[], rules text[], named boolean[], algorithms text[],
    params bigint[], starts int[], requests bigint[], sizes int[])
RETURNS bigint[] LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    s        weir_states;
    rows     weir_states[];
    saved    weir_states[];
    hard     boolean[];              -- not decided here
    dirty    boolean[] := array_fill(false, ARRAY[cardinality(names)]);
    undirty  boolean[];
    resets   bigint[] := array_fill(0::bigint, ARRAY[cardinality(names)]);
    added    boolean[];
    count    int := 0;
    p        bigint[];
    r        weir_result;
    answer   bigint[];
    at       int := 0; -- in requests
    size     int;
    k        int;
    l        int;
    n        bigint;
    op       bigint;
    whole    boolean;
    undecided boolean;
BEGIN
    FOR i IN 1 .. cardinality(names) LOOP
        added[i] := false;
        LOOP
            SELECT * INTO s FROM weir_states t WHERE t.name = names[i] FOR NO KEY UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO weir_states VALUES (names[i], '{}', 0, 0, NULL, NULL, 0, 0) ON CONFLICT DO NOTHING RETURNING * INTO s;
            IF FOUND THEN
                added[i] := true;
                count := count + 1;
                EXIT;
            END IF;
        END LOOP;
        rows[i] := s;
    END LOOP;
    IF clock = 0 THEN
        clock := weir_now(); -- after the rows are locked: no later than by the clock of their last write
    END IF;
    FOR i IN 1 .. cardinality(names) LOOP
        s := rows[i];
        hard[i] := s.reservations IS NOT NULL OR s.ahead <> 0 OR s.last > clock;
    END LOOP;
    answer[1] := clock;
    FOREACH size IN ARRAY sizes LOOP
        whole := true;
        undecided := false;
        IF size > 1 THEN
            saved := rows;
            undirty := dirty;
        END IF;
        FOR i IN at + 1 .. at + size LOOP
            k := requests[5 * i - 4];
            l := requests[5 * i - 3];
            op := requests[5 * i - 2];
            n := requests[5 * i - 1];
            s := rows[k];
            -- A bucket of more words was converted from another limit.
            undecided := hard[k] OR named[l] AND cardinality(s.words) > 0 AND s.rule IS DISTINCT FROM rules[l]
                OR cardinality(s.words) > 2 AND algorithms[l] <> 'sliding_window';
            EXIT WHEN undecided;
            p := params[starts[l] + 1 : starts[l + 1]];
            CASE algorithms[l]
                WHEN 'token_bucket', 'leaky_bucket' THEN r := weir_token_bucket(s.words, p, op, clock, n);
                WHEN 'sliding_window' THEN r := weir_sliding_window(s.words, p, op, clock, n, requests[5 * i]);
                WHEN 'fixed_window' THEN r := weir_fixed_window(s.words, p, op, clock, n, requests[5 * i]);
                WHEN 'limit_req' THEN r := weir_limit_req(s.words, p, op, clock, n);
                WHEN 'interval_bucket' THEN r := weir_interval_bucket(s.words, p, op, clock, n);
            END CASE;
            IF r.ok IS NULL THEN
                undecided := true;
                EXIT;
            END IF;
            whole := whole AND r.ok;
            answer[6 * i - 4] := r.ok::int;
            answer[6 * i - 3] := r.granted;
            answer[6 * i - 2] := r.balance;
            answer[6 * i - 1] := r.retry;
            answer[6 * i] := r.reset;
            answer[6 * i + 1] := r.delay;
            IF r.ok AND op <> 2 AND (n > 0 OR op > 2) THEN
                s.words := r.s;
                s.rule := rules[l];
                rows[k] := s;
                dirty[k] := true;
                resets[k] := r.reset;
            END IF;
        END LOOP;
        IF undecided THEN
            FOR i IN at + 1 .. at + size LOOP
                answer[6 * i - 4] := 5;
                FOR j IN 6 * i - 3 .. 6 * i + 1 LOOP
                    answer[j] := 0;
                END LOOP;
            END LOOP;
        END IF;
        IF size > 1 AND (undecided OR NOT whole) THEN
            rows := saved;
            dirty := undirty;
        END IF;
        at := at + size;
    END LOOP;
    FOR i IN 1 .. cardinality(names) LOOP
        IF dirty[i] AND resets[i] > 0 THEN
            UPDATE weir_states t SET words = rows[i].words, last = clock, rule = rows[i].rule,
                version = nextval('weir_versions'), expires = clock + resets[i]
            WHERE t.name = names[i];
        ELSIF dirty[i] OR added[i] THEN
            DELETE FROM weir_states t WHERE t.name = names[i];
        END IF;
    END LOOP;
    PERFORM weir_sweep(count, clock);
    RETURN answer;
END
$$;
-- +goose StatementEnd
