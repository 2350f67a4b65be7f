-- The outbox, for a relay. It works on one lane at a time, which it holds for a while.

-- Takes a lane that no other relay holds, or holds one longer. Answers whether it has it.
CREATE FUNCTION lease_v1(p_namespace text, p_lane int, p_holder text, p_ms bigint) RETURNS boolean
PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := clock_us() / 1000;
BEGIN
    INSERT INTO relays AS r (namespace, lane, holder, until)
        VALUES (p_namespace, p_lane, p_holder, v_now + p_ms)
        ON CONFLICT (namespace, lane) DO UPDATE SET holder = excluded.holder, until = excluded.until
        WHERE r.holder = excluded.holder OR r.until <= v_now;
    RETURN FOUND;
END $$;

-- The first rows of a lane that are due, up to p_limit and about 4 MiB, each with the number of the
-- call before it for the same task, which has to be applied first.
CREATE FUNCTION outbox_v1(p_namespace text, p_lane int, p_limit int)
RETURNS TABLE (o_row outbox, o_previous bigint) PINNED LANGUAGE sql AS $$
    WITH first AS MATERIALIZED (
        SELECT o FROM outbox o
        WHERE o.namespace = p_namespace AND o.lane = p_lane AND o.aside IS NULL
            AND o.not_before <= clock_us() / 1000
        ORDER BY o.not_before, o.seq LIMIT p_limit
    ), sized AS (
        SELECT f.o, sum(octet_length((f.o).message)) OVER (ORDER BY (f.o).not_before, (f.o).seq)
            - octet_length((f.o).message) AS before
        FROM first f
    )
    SELECT s.o, (SELECT e.seq FROM outbox e WHERE e.namespace = p_namespace AND e.type = (s.o).type
            AND e.id = (s.o).id AND e.seq < (s.o).seq AND e.aside IS NULL
            ORDER BY e.seq DESC LIMIT 1)
    FROM sized s WHERE coalesce(s.before, 0) < 4194304 ORDER BY (s.o).seq
$$;

-- Notes what became of rows, if the relay still holds their lane. p_end: 0 applied, 1 parked, 2 to
-- be tried again after p_wait ms, and twice as long each time, 3 set aside.
CREATE FUNCTION relayed_v1(
    p_namespace text, p_lane int, p_holder text, p_seq bigint[], p_end smallint[], p_error text[],
    p_wait bigint
) RETURNS boolean PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := clock_us() / 1000;
BEGIN
    PERFORM 1 FROM relays r WHERE r.namespace = p_namespace AND r.lane = p_lane
        AND r.holder = p_holder AND r.until > v_now FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM outbox o USING unnest(p_seq, p_end) AS u(seq, ending)
        WHERE o.seq = u.seq AND u.ending = 0;
    UPDATE outbox o SET is_parked = o.is_parked OR u.ending = 1,
            tries = o.tries + CASE WHEN u.ending > 1 THEN 1 ELSE 0 END,
            not_before = CASE WHEN u.ending = 2 THEN v_now + p_wait * (1 << least(o.tries, 6))
                ELSE o.not_before END,
            aside = CASE WHEN u.ending = 3 THEN v_now END,
            error = coalesce(u.error, o.error)
        FROM unnest(p_seq, p_end, p_error) AS u(seq, ending, error)
        WHERE o.seq = u.seq AND u.ending > 0;
    RETURN true;
END $$;

-- How many calls wait and since when, and how many are set aside.
CREATE FUNCTION outbox_status_v1(p_namespace text)
RETURNS TABLE (o_now bigint, o_waiting bigint, o_oldest bigint, o_aside bigint) PINNED LANGUAGE sql AS $$
    SELECT clock_us() / 1000,
        (SELECT count(*) FROM outbox o WHERE o.namespace = p_namespace AND o.aside IS NULL),
        (SELECT min(o.at) FROM outbox o WHERE o.namespace = p_namespace AND o.aside IS NULL),
        (SELECT count(*) FROM outbox o WHERE o.namespace = p_namespace AND o.aside IS NOT NULL)
$$;

-- Tries what was set aside again, or removes it. Answers the number of calls.
CREATE FUNCTION resolve_aside_v1(p_namespace text, p_seq bigint, p_discards boolean) RETURNS bigint
PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    IF p_discards THEN
        DELETE FROM outbox o WHERE o.namespace = p_namespace AND o.aside IS NOT NULL
            AND (p_seq IS NULL OR o.seq = p_seq);
    ELSE
        UPDATE outbox o SET aside = NULL, tries = 0, not_before = 0
            WHERE o.namespace = p_namespace AND o.aside IS NOT NULL
            AND (p_seq IS NULL OR o.seq = p_seq);
    END IF;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

-- The lanes that have calls to apply now.
CREATE FUNCTION lanes_v1(p_namespace text) RETURNS SETOF int PINNED LANGUAGE sql AS $$
    SELECT l FROM generate_series(0, 7) l WHERE EXISTS (SELECT 1 FROM outbox o
        WHERE o.namespace = p_namespace AND o.lane = l AND o.aside IS NULL
            AND o.not_before <= clock_us() / 1000)
$$;

-- Says where the tasks of a namespace are: calls go to the outbox, or to this database. Answers
-- whether that is so now: not while the place that it leaves has tasks or calls. NULL: a
-- transaction that has made a call is open.
CREATE FUNCTION set_relayed_v1(p_namespace text, p_is_relayed boolean) RETURNS boolean
PINNED LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce((SELECT n.is_relayed FROM namespaces n WHERE n.name = p_namespace), false) = p_is_relayed
    THEN
        RETURN true;
    END IF;
    IF NOT pg_try_advisory_xact_lock('namespaces'::regclass::oid::int, hashtext(p_namespace)) THEN
        RETURN NULL;
    END IF;
    IF p_is_relayed AND EXISTS (SELECT 1 FROM types y JOIN tasks t ON t.type = y.id
            WHERE y.namespace = p_namespace AND t.state < 3)
        OR NOT p_is_relayed AND EXISTS (SELECT 1 FROM outbox o WHERE o.namespace = p_namespace) THEN
        RETURN false;
    END IF;
    INSERT INTO namespaces (name, is_relayed) VALUES (p_namespace, p_is_relayed)
        ON CONFLICT (name) DO UPDATE SET is_relayed = excluded.is_relayed;
    RETURN true;
END $$;
