-- Records of tasks that end, for a history.

-- Records the ends of tasks that have not changed yet, and that the caller has locked.
CREATE FUNCTION record_ends_v1(
    p_namespace text, p_keep bigint, p_tids tid[], p_outcome int, p_now bigint
) RETURNS void PINNED LANGUAGE sql AS $$
    INSERT INTO ends (namespace, type, id, outcome, submitted, due, ended, fence, is_running,
            attempts, headers, holder, error, errors, size, message, bytes)
    SELECT p_namespace, x.type, x.id, p_outcome, x.submitted, coalesce(x.due, x.at), p_now,
        greatest(x.fence, x.settled, 0), x.state = 1,
        coalesce(x.failures, 0) + coalesce(x.lock_expiries, 0) + (x.state = 1)::int, x.headers,
        x.holder, x.last_error, x.errors, coalesce(octet_length(x.message), 0), x.kept,
        64 + octet_length(x.id) + coalesce(octet_length(x.headers), 0)
        + coalesce(octet_length(x.holder), 0)
        + coalesce(octet_length(x.last_error), 0) + coalesce(octet_length(x.errors), 0)
        + coalesce(octet_length(x.kept), 0)
    FROM (
        SELECT t.*,
            CASE WHEN p_keep > 0
                THEN substring(t.message FROM 1 FOR least(p_keep, 1 << 30)::int) END AS kept
        FROM tasks t WHERE t.ctid = ANY (p_tids)
    ) x
$$;

-- The first records of a namespace, up to about 8 MiB.
CREATE FUNCTION ends_v1(p_namespace text, p_limit int)
RETURNS TABLE (o_seq bigint, o_type text, o_end ends) PINNED LANGUAGE sql AS $$
    SELECT e.seq, y.name, e FROM ends e JOIN types y ON y.id = e.type
    WHERE e.namespace = p_namespace AND e.seq <= (
        SELECT max(x.seq) FROM (
            SELECT f.seq, f.bytes, sum(f.bytes) OVER (ORDER BY f.seq) AS upto FROM (
                SELECT seq, bytes FROM ends WHERE namespace = p_namespace ORDER BY seq LIMIT p_limit
            ) f
        ) x WHERE x.upto - x.bytes < 8388608
    ) ORDER BY e.seq
$$;

-- Drops the oldest records beyond p_limit bytes. Answers what waits, and what was dropped so far.
CREATE FUNCTION trim_ends_v1(p_namespace text, p_limit bigint)
RETURNS TABLE (o_waiting bigint, o_bytes bigint, o_oldest bigint, o_lost bigint)
PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_last bigint;
    v_dropped bigint;
BEGIN
    SELECT count(*), coalesce(sum(bytes), 0) INTO o_waiting, o_bytes
        FROM ends WHERE namespace = p_namespace;
    IF o_bytes > p_limit AND pg_try_advisory_xact_lock('ends'::regclass::oid::int, hashtext(p_namespace))
    THEN
        SELECT max(x.seq) INTO v_last FROM (
            SELECT e.seq, sum(e.bytes) OVER (ORDER BY e.seq DESC) AS above
            FROM ends e WHERE e.namespace = p_namespace
        ) x WHERE x.above > p_limit;
        DELETE FROM ends WHERE namespace = p_namespace AND seq <= v_last;
        GET DIAGNOSTICS v_dropped = ROW_COUNT;
        INSERT INTO ends_lost AS l (namespace, lost) VALUES (p_namespace, v_dropped)
            ON CONFLICT (namespace) DO UPDATE SET lost = l.lost + excluded.lost;
        SELECT count(*), coalesce(sum(bytes), 0) INTO o_waiting, o_bytes
            FROM ends WHERE namespace = p_namespace;
    END IF;
    SELECT e.ended INTO o_oldest FROM ends e WHERE e.namespace = p_namespace ORDER BY e.seq LIMIT 1;
    SELECT l.lost INTO o_lost FROM ends_lost l WHERE l.namespace = p_namespace;
    o_lost := coalesce(o_lost, 0);
    RETURN NEXT;
END $$;
