-- The calls of delayq's own client in a transaction of the application: JSON in, JSON out.

-- Ends an attempt as done, by its fence. outcome: done; settled, if it was before; lock_lost. It
-- takes no lock of a limited type: until the transaction ends, that would keep all its tasks from
-- starting. A slot that becomes free is found by the next look of a handler.
CREATE FUNCTION settle_within_v1(p_namespace text, p_name text, p_id text, p_fence bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_type int;
    v_keep bigint;
    v_task tasks;
BEGIN
    SELECT y.id, y.history INTO v_type, v_keep FROM types y
        WHERE y.namespace = p_namespace AND y.name = p_name;
    SELECT t.* INTO v_task FROM tasks t WHERE t.type = v_type AND t.id = p_id FOR UPDATE;
    IF v_task.state = 1 AND v_task.fence = p_fence THEN
        IF v_task.flags & 4 = 0 THEN
            PERFORM end_done_v2(v_type, ARRAY[p_id], ARRAY[p_fence], clock_us() / 1000, p_namespace,
                v_keep);
        ELSE
            IF v_keep IS NOT NULL THEN
                PERFORM record_ends_v1(p_namespace, v_keep, ARRAY(SELECT t.ctid FROM tasks t
                    WHERE t.type = v_type AND t.id = p_id), 0, clock_us() / 1000);
            END IF;
            -- The request that waits for this end becomes the task.
            PERFORM follow_v1(v_type, ARRAY[p_id], ARRAY[p_fence], ARRAY[1::smallint],
                clock_us() / 1000);
            INSERT INTO ledger (type, running, scheduled, done) VALUES (v_type, -1, 1, 1);
        END IF;
        RETURN 'done';
    END IF;
    IF v_task.settled = p_fence AND v_task.settled_by = 1 THEN
        RETURN 'settled';
    END IF;
    RETURN 'lock_lost';
END $$;

-- Cancels tasks, or moves them.
CREATE FUNCTION change_within_v1(p_call text, p_namespace text, p_request jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_ids text[] := ARRAY(SELECT jsonb_array_elements_text(p_request -> 'ids'));
    v_name text := p_request ->> 'type';
    v_names text[] := ARRAY['changed', 'running', 'finished', 'not_found'];
    v_retention bigint := retention_v1(p_namespace);
    v_delay bigint := span_v1(p_call, p_request, 'delay');
    v_at bigint := time_v1(p_call, p_request, 'at');
    v_outcomes jsonb;
BEGIN
    PERFORM namespace_v1(p_call, v_name, v_ids, p_request);
    IF p_call = 'reschedule' AND (v_delay IS NULL) = (v_at IS NULL) THEN
        PERFORM refuse_v1(p_call, 'delay', 'null', 'give a delay or a time');
    END IF;
    IF is_relayed_v1(p_namespace) THEN
        PERFORM enqueue_change_v1(CASE p_call WHEN 'cancel' THEN 1 ELSE 2 END, p_namespace, v_name, u.id,
                coalesce(v_at, (clock_us() + 999) / 1000 + v_delay), NULL)
            FROM unnest(v_ids) WITH ORDINALITY AS u(id, n) ORDER BY u.n;
        RETURN (SELECT jsonb_agg('{"outcome": "relayed"}'::jsonb) FROM unnest(v_ids));
    END IF;
    IF p_call = 'cancel' THEN
        v_names[1] := 'cancelled';
        SELECT jsonb_agg(jsonb_build_object('outcome', v_names[c.o_outcome + 1],
                'state', state_name_v1(c.o_state)) ORDER BY c.o_n)
            INTO v_outcomes FROM cancel_v1(p_namespace, v_name, v_retention, v_ids) c;
    ELSE
        SELECT jsonb_agg(jsonb_build_object('outcome', v_names[c.o_outcome + 1],
                'state', state_name_v1(c.o_state), 'due_ms', c.o_due) ORDER BY c.o_n)
            INTO v_outcomes FROM reschedule_v1(p_namespace, v_name, v_retention, v_ids,
                array_fill(v_delay, ARRAY[cardinality(v_ids)]),
                array_fill(v_at, ARRAY[cardinality(v_ids)])) c;
    END IF;
    RETURN coalesce(v_outcomes, '[]');
END $$;

-- A call of a sender. "call": send, cancel, reschedule, update.
CREATE FUNCTION within_v1(p_request text) RETURNS text SECURITY DEFINER PINNED LANGUAGE plpgsql AS $$
DECLARE
    v_request jsonb := p_request;
    v_call text := v_request ->> 'call';
    v_namespace text := coalesce(v_request ->> 'namespace', 'default');
    v_outcomes jsonb;
BEGIN
    CASE v_call
    WHEN 'send' THEN
        SELECT jsonb_agg(jsonb_build_object('outcome', s.o_outcome, 'due_ms', s.o_due,
                'state', s.o_state) || s.o_detail ORDER BY s.o_n)
            INTO v_outcomes FROM send_v1(requests_v1(v_call, (
                SELECT jsonb_agg(t || jsonb_build_object('namespace', v_namespace))
                FROM jsonb_array_elements(v_request -> 'tasks') t))) s;
    WHEN 'cancel', 'reschedule' THEN
        v_outcomes := change_within_v1(v_call, v_namespace, v_request);
    WHEN 'update' THEN
        SELECT jsonb_build_array(jsonb_build_object('outcome', c.outcome, 'state', c.state,
                'due_ms', (extract(epoch FROM c.due_at) * 1000)::bigint))
            INTO v_outcomes FROM change_message_v1(v_request ->> 'type', v_request ->> 'id',
                message_v1(v_call, v_request), jsonb_build_object('namespace', v_namespace)) c;
    ELSE
        RAISE EXCEPTION 'delayq: unknown call %', coalesce(quote_literal(v_call), 'NULL')
            USING ERRCODE = 'DQ001', HINT = 'install the schema of this release: delayq migrate';
    END CASE;
    RETURN jsonb_build_object('outcomes', coalesce(v_outcomes, '[]'));
END $$;

-- The call of a worker: the end of its attempt.
CREATE FUNCTION done_within_v1(p_request text) RETURNS text SECURITY DEFINER PINNED
LANGUAGE plpgsql AS $$
DECLARE
    v_request jsonb := p_request;
    v_namespace text := namespace_v1('settle', v_request ->> 'type', ARRAY[v_request ->> 'id'],
        v_request);
BEGIN
    RETURN jsonb_build_object('outcomes', jsonb_build_array(jsonb_build_object('outcome',
        settle_within_v1(v_namespace, v_request ->> 'type', v_request ->> 'id',
            (v_request ->> 'fence')::bigint))));
END $$;
