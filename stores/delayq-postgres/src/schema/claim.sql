-- Claims. Answers one row without an id, and one for each task.
--
-- The fast way takes due tasks. It leaves everything else to the store, which decides in a
-- transaction of its own (o_is_slow): a pause, an expired lock, a fleet limit, an expired task.
-- p_due_floor, p_lock_floor: no task below is due, no lock below expires, as far as the caller
-- knows. They keep the scans off the dead rows of earlier claims, which stay while any
-- transaction is open.
CREATE FUNCTION claim_v1(
    p_namespace text, p_name text, p_limit int, p_lock_ms bigint, p_holder text,
    p_is_limited boolean, p_guard bigint, p_due_floor bigint, p_lock_floor bigint
) RETURNS TABLE (
    o_id text, o_now_us bigint, o_high bigint, o_is_slow boolean, o_next_due bigint,
    o_next_lock bigint, o_scan_us bigint, o_due_at bigint, o_until bigint, o_fence bigint,
    o_submitted bigint, o_due bigint, o_expires_at bigint, o_expires_after bigint,
    o_checksum bigint, o_failures int, o_lock_expiries int, o_releases int, o_requeues int,
    o_last_error bytea, o_succeeded text, o_note bytea, o_headers text, o_message bytea
) PINNED LANGUAGE plpgsql AS $$
DECLARE
    c_max CONSTANT bigint := 253402207199999;
    v_type int;
    v_paused bigint;
    v_is_limited boolean;
    v_now bigint;
    v_compared bigint;
    v_base bigint;
    v_last bigint;
    v_tids tid[];
    v_at bigint[];
    v_taken int;
    v_has_expired boolean;
    v_settled bigint;
    v_started timestamptz;
BEGIN
    o_now_us := clock_us();
    v_now := o_now_us / 1000;
    v_compared := least(v_now, p_guard);
    o_high := 0;
    o_is_slow := false;
    -- The counts and the ledger in one snapshot: a fold moves fences from one to the other.
    SELECT t.id, t.paused_until, t.is_limited, greatest(c.fence, (
            SELECT max(l.fence) FROM ledger l WHERE l.type = t.id AND l.fence > c.fence))
        INTO v_type, v_paused, v_is_limited, o_high
        FROM types t JOIN counts c ON c.type = t.id
        WHERE t.namespace = p_namespace AND t.name = p_name;
    IF NOT FOUND THEN
        o_high := 0;
        RETURN NEXT;
        RETURN;
    END IF;
    IF v_paused > v_now OR v_is_limited OR p_is_limited OR p_limit < 1 THEN
        o_is_slow := true;
        RETURN NEXT;
        RETURN;
    END IF;
    v_started := clock_timestamp();
    SELECT t.at INTO o_next_lock FROM tasks t
        WHERE t.type = v_type AND t.state = 1 AND t.at >= p_lock_floor
        ORDER BY t.at, t.id LIMIT 1;
    IF o_next_lock <= v_now THEN
        o_is_slow := true;
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT array_agg(d.tid), array_agg(d.at), max(d.at), count(*), bool_or(d.has_expired),
            max(d.settled)
        INTO v_tids, v_at, v_last, v_taken, v_has_expired, v_settled
        FROM (
            SELECT t.ctid AS tid, t.at, t.settled, t.expires_at <= v_compared
                OR t.due <= v_compared - t.expires_after AS has_expired
            FROM tasks t
            WHERE t.type = v_type AND t.state = 0 AND t.at <= v_compared
                AND t.at >= least(p_due_floor, v_compared)
            ORDER BY t.at, t.id LIMIT p_limit FOR UPDATE SKIP LOCKED
        ) d;
    o_scan_us := (extract(epoch FROM clock_timestamp() - v_started) * 1000000)::bigint;
    IF v_has_expired THEN
        o_is_slow := true;
        RETURN NEXT;
        RETURN;
    END IF;
    -- Fences stay exact in programs that keep numbers as doubles; see next_fence of delayq-core.
    -- The rows are locked now: no earlier fence of theirs is left out.
    SELECT greatest(c.fence, (
            SELECT max(l.fence) FROM ledger l WHERE l.type = v_type AND l.fence > c.fence))
        INTO v_base FROM counts c WHERE c.type = v_type;
    v_base := greatest(least(clock_us(), 9006099743113215), v_base + 1, coalesce(v_settled, 0) + 1);
    IF v_base + v_taken > 9007199254740991 THEN
        o_is_slow := true;
        RETURN NEXT;
        RETURN;
    END IF;
    IF v_taken > 0 THEN
        INSERT INTO ledger (type, scheduled, running, fence)
            VALUES (v_type, -v_taken, v_taken, v_base + v_taken - 1);
        o_next_lock := least(o_next_lock, least(v_now + p_lock_ms, c_max));
    END IF;
    -- A full claim may have left due tasks. What a claim that was not full passed by is locked by
    -- another call.
    IF p_limit > v_taken THEN
        SELECT t.at INTO o_next_due FROM tasks t
            WHERE t.type = v_type AND t.state = 0 AND t.at > v_compared
            ORDER BY t.at, t.id LIMIT 1;
    ELSE
        SELECT t.at INTO o_next_due FROM tasks t
            WHERE t.type = v_type AND t.state = 0 AND t.at >= v_last AND t.ctid <> ALL (v_tids)
            ORDER BY t.at, t.id LIMIT 1;
    END IF;
    RETURN NEXT;
    IF v_taken > 0 THEN
        RETURN QUERY
            WITH taken AS (
                UPDATE tasks t SET state = 1, flags = t.flags & 4, at = least(v_now + p_lock_ms, c_max),
                    fence = v_base + u.n - 1,
                    holder = p_holder
                FROM unnest(v_tids, v_at) WITH ORDINALITY AS u(tid, at, n)
                WHERE t.ctid = u.tid
                RETURNING u.n, u.at AS due_at, t.*
            )
            SELECT w.id, NULL::bigint, NULL::bigint, NULL::boolean, NULL::bigint, NULL::bigint,
                NULL::bigint, w.due_at, w.at, w.fence, w.submitted, w.due, w.expires_at,
                w.expires_after, w.checksum, coalesce(w.failures, 0), coalesce(w.lock_expiries, 0),
                coalesce(w.releases, 0), coalesce(w.requeues, 0), w.last_error, w.succeeded,
                w.note, w.headers, w.message
            FROM taken w ORDER BY w.n;
    END IF;
END $$;
