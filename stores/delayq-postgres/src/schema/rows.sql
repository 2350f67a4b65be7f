-- Reads, and the steps of operations that the store decides in a transaction of its own.

-- A type with its settings, its counts and the store's clock. p_lock: no other call with a lock
-- goes on before the transaction ends. Answers no row for an unknown type.
CREATE FUNCTION open_v1(p_namespace text, p_name text, p_lock boolean)
RETURNS TABLE (o_now_us bigint, o_type types, o_counts counts) PINNED LANGUAGE plpgsql AS $$
BEGIN
    IF p_lock THEN
        SELECT t.* INTO o_type FROM types t
            WHERE t.namespace = p_namespace AND t.name = p_name FOR UPDATE;
    ELSE
        SELECT t.* INTO o_type FROM types t WHERE t.namespace = p_namespace AND t.name = p_name;
    END IF;
    o_now_us := clock_us();
    o_counts := counts_v1(o_type.id);
    RETURN NEXT;
END $$;

-- The tasks with these ids, in the order of the ids. p_lock: none of them changes before the
-- transaction ends.
CREATE FUNCTION tasks_v1(p_type int, p_ids text[], p_lock boolean) RETURNS SETOF tasks
PINNED LANGUAGE plpgsql AS $$
BEGIN
    IF p_lock THEN
        RETURN QUERY SELECT t.* FROM tasks t
            WHERE t.type = p_type AND t.id = ANY (p_ids) ORDER BY t.id FOR UPDATE;
    ELSE
        RETURN QUERY SELECT t.* FROM tasks t WHERE t.type = p_type AND t.id = ANY (p_ids) ORDER BY t.id;
    END IF;
END $$;

-- Locks the tasks with these ids, except those that another transaction keeps locked: answers
-- their ids.
CREATE FUNCTION busy_v1(p_type int, p_ids text[]) RETURNS SETOF text
PINNED SET lock_timeout = '50ms' LANGUAGE plpgsql AS $$
DECLARE
    v_busy text[];
BEGIN
    SELECT array_agg(d.id) INTO v_busy FROM (
        SELECT t.id FROM tasks t WHERE t.type = p_type AND t.id = ANY (p_ids)
            ORDER BY t.id FOR UPDATE SKIP LOCKED
    ) d;
    SELECT array_agg(t.id) INTO v_busy FROM tasks t
        WHERE t.type = p_type AND t.id = ANY (p_ids) AND t.id <> ALL (coalesce(v_busy, '{}'));
    IF v_busy IS NULL THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM t.id FROM tasks t WHERE t.type = p_type AND t.id = ANY (v_busy) ORDER BY t.id FOR UPDATE;
    EXCEPTION WHEN lock_not_available THEN
        RETURN QUERY SELECT unnest(v_busy);
    END;
END $$;

-- Up to p_limit running tasks whose lock has expired, locked. p_floor: none that expires below has
-- a lock, as far as the caller knows.
CREATE FUNCTION expired_v1(p_type int, p_now bigint, p_limit int, p_floor bigint)
RETURNS SETOF tasks PINNED LANGUAGE sql AS $$
    SELECT t.* FROM tasks t
        WHERE t.type = p_type AND t.state = 1 AND t.at <= p_now AND t.at >= p_floor
        ORDER BY t.at, t.id LIMIT p_limit FOR UPDATE SKIP LOCKED
$$;

-- Up to p_limit due tasks, locked. p_floor: none is due below, as far as the caller knows.
CREATE FUNCTION due_v1(p_type int, p_now bigint, p_limit int, p_floor bigint)
RETURNS SETOF tasks PINNED LANGUAGE sql AS $$
    SELECT t.* FROM tasks t
        WHERE t.type = p_type AND t.state = 0 AND t.at <= p_now AND t.at >= p_floor
        ORDER BY t.at, t.id LIMIT p_limit FOR UPDATE SKIP LOCKED
$$;

-- The first due time, and the first expiry of a lock, each from a floor on. o_scan_us: how long it
-- took to find them.
CREATE FUNCTION next_v1(p_type int, p_due_floor bigint, p_lock_floor bigint)
RETURNS TABLE (o_due bigint, o_lock bigint, o_scan_us bigint) PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_started bigint := clock_us();
BEGIN
    SELECT t.at INTO o_due FROM tasks t
        WHERE t.type = p_type AND t.state = 0 AND t.at >= p_due_floor
        ORDER BY t.at, t.id LIMIT 1;
    SELECT t.at INTO o_lock FROM tasks t
        WHERE t.type = p_type AND t.state = 1 AND t.at >= p_lock_floor
        ORDER BY t.at, t.id LIMIT 1;
    o_scan_us := clock_us() - v_started;
    RETURN NEXT;
END $$;

-- A page of the tasks in a state after a position: earliest first, ended ones latest first.
CREATE FUNCTION list_v1(p_type int, p_state int, p_at bigint, p_id text, p_limit int, p_lock boolean)
RETURNS SETOF tasks PINNED LANGUAGE plpgsql AS $$
BEGIN
    IF p_state = 0 THEN
        RETURN QUERY SELECT t.* FROM tasks t
            WHERE t.type = p_type AND t.state = 0 AND (t.at, t.id) > (p_at, p_id)
            ORDER BY t.at, t.id LIMIT p_limit;
    ELSIF p_state = 1 THEN
        RETURN QUERY SELECT t.* FROM tasks t
            WHERE t.type = p_type AND t.state = 1 AND (t.at, t.id) > (p_at, p_id)
            ORDER BY t.at, t.id LIMIT p_limit;
    ELSIF p_state = 2 AND p_lock THEN
        RETURN QUERY SELECT t.* FROM tasks t
            WHERE t.type = p_type AND t.state = 2 AND (t.at, t.id) > (p_at, p_id)
            ORDER BY t.at, t.id LIMIT p_limit FOR UPDATE;
    ELSIF p_state = 2 THEN
        RETURN QUERY SELECT t.* FROM tasks t
            WHERE t.type = p_type AND t.state = 2 AND (t.at, t.id) > (p_at, p_id)
            ORDER BY t.at, t.id LIMIT p_limit;
    ELSE
        RETURN QUERY SELECT t.* FROM tasks t
            WHERE t.type = p_type AND t.state = p_state AND t.state > 1 AND (t.at, t.id) < (p_at, p_id)
            ORDER BY t.at DESC, t.id DESC LIMIT p_limit;
    END IF;
END $$;

-- The number of scheduled tasks due up to a time. O(their number).
CREATE FUNCTION due_count_v1(p_type int, p_now bigint) RETURNS bigint PINNED LANGUAGE sql AS $$
    SELECT count(*) FROM tasks t WHERE t.type = p_type AND t.state = 0 AND t.at <= p_now
$$;

-- The number of scheduled tasks due in each of p_steps equal parts of a span, for parts that have
-- any.
CREATE FUNCTION due_parts_v1(p_type int, p_from bigint, p_to bigint, p_steps bigint)
RETURNS TABLE (o_part bigint, o_tasks bigint) PINNED LANGUAGE sql AS $$
    SELECT (t.at - p_from) * p_steps / (p_to - p_from), count(*)
    FROM tasks t WHERE t.type = p_type AND t.state = 0 AND t.at >= p_from AND t.at < p_to GROUP BY 1
$$;

-- Removes up to p_limit tasks in a state other than running. o_known: those of them that had not
-- ended up to p_before.
CREATE FUNCTION purge_v1(p_type int, p_state int, p_limit int, p_retention bigint)
RETURNS TABLE (o_purged int, o_known int) PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_before bigint := clock_us() / 1000 - p_retention;
    v_tids tid[];
    v_followed text[];
    v_namespace text;
    v_keep bigint;
BEGIN
    IF p_state = 0 THEN
        SELECT array_agg(d.tid) INTO v_tids FROM (
            SELECT t.ctid AS tid FROM tasks t WHERE t.type = p_type AND t.state = 0
                ORDER BY t.at, t.id LIMIT p_limit FOR UPDATE) d;
    ELSE
        SELECT array_agg(d.tid) INTO v_tids FROM (
            SELECT t.ctid AS tid FROM tasks t
                WHERE t.type = p_type AND t.state = p_state AND t.state > 1
                ORDER BY t.at, t.id LIMIT p_limit FOR UPDATE) d;
    END IF;
    IF p_state < 3 THEN
        SELECT y.namespace, y.history INTO v_namespace, v_keep FROM types y WHERE y.id = p_type;
        IF v_keep IS NOT NULL THEN
            PERFORM record_ends_v1(v_namespace, v_keep, v_tids, 4, clock_us() / 1000);
        END IF;
    END IF;
    WITH gone AS (
        DELETE FROM tasks t USING unnest(v_tids) AS d(tid) WHERE t.ctid = d.tid
            RETURNING t.id, t.at, t.flags
    )
    SELECT count(*), count(*) FILTER (WHERE p_state < 3 OR g.at > v_before),
        array_agg(g.id) FILTER (WHERE g.flags & 4 <> 0)
        INTO o_purged, o_known, v_followed FROM gone g;
    IF v_followed IS NOT NULL THEN
        DELETE FROM follow_ups WHERE type = p_type AND id = ANY (v_followed);
    END IF;
    IF o_purged > 0 THEN
        INSERT INTO ledger (type, scheduled, dead, ended) VALUES (p_type,
            CASE WHEN p_state = 0 THEN -o_purged ELSE 0 END,
            CASE WHEN p_state = 2 THEN -o_purged ELSE 0 END,
            CASE WHEN p_state > 2 THEN -o_purged ELSE 0 END);
    END IF;
    RETURN NEXT;
END $$;
