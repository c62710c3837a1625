SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE DOMAIN public.lading_json AS text COLLATE pg_catalog."C"
	CONSTRAINT lading_json_check CHECK (((VALUE IS NULL) OR
CASE
    WHEN (strpos(VALUE, '\u'::text) = 0) THEN ((VALUE)::json IS NOT NULL)
    ELSE ((VALUE)::jsonb IS NOT NULL)
END));
CREATE FUNCTION public.lading_each(document text) RETURNS TABLE(key text, fullkey text, type text, value text, number numeric)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT one.key, one.fullkey,
        CASE json_typeof(one.item)
            WHEN 'string' THEN 'text'
            WHEN 'number' THEN 'real'
            WHEN 'boolean' THEN one.item::text
            ELSE json_typeof(one.item)
        END,
        one.item #>> '{}',
        CASE json_typeof(one.item) WHEN 'number' THEN (one.item #>> '{}')::numeric END
    FROM (
        SELECT o.key, '$.' || o.key AS fullkey, o.value AS item
        FROM json_each(CASE json_typeof(document::json) WHEN 'object' THEN document::json END) o
        UNION ALL
        SELECT NULL, '$[' || (a.position - 1) || ']', a.value
        FROM json_array_elements(
            CASE json_typeof(document::json) WHEN 'array' THEN document::json END)
            WITH ORDINALITY AS a(value, position)
    ) one
$_$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.allocations (
    container_uuid text NOT NULL,
    request_uuid text NOT NULL,
    user_uuid text NOT NULL,
    priority bigint NOT NULL,
    state text NOT NULL,
    started_at text NOT NULL,
    ended_at text
);
CREATE TABLE public.api_client_authorizations (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    created_by_ip_address text COLLATE pg_catalog."C",
    expires_at text COLLATE pg_catalog."C",
    last_used_at text COLLATE pg_catalog."C",
    last_used_by_ip_address text COLLATE pg_catalog."C",
    scopes public.lading_json DEFAULT '["all"]'::text,
    secret_hash text COLLATE pg_catalog."C",
    container_uuid text COLLATE pg_catalog."C"
);
CREATE TABLE public.authorized_keys (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    key_type text COLLATE pg_catalog."C",
    authorized_user_uuid text COLLATE pg_catalog."C",
    public_key text COLLATE pg_catalog."C",
    expires_at text COLLATE pg_catalog."C"
);
CREATE TABLE public.collections (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text,
    portable_data_hash text COLLATE pg_catalog."C",
    manifest_text text DEFAULT ''::text COLLATE pg_catalog."C",
    replication_desired bigint,
    replication_confirmed bigint,
    replication_confirmed_at text COLLATE pg_catalog."C",
    storage_classes_desired public.lading_json DEFAULT '["default"]'::text,
    storage_classes_confirmed public.lading_json DEFAULT '[]'::text,
    storage_classes_confirmed_at text COLLATE pg_catalog."C",
    trash_at text COLLATE pg_catalog."C",
    delete_at text COLLATE pg_catalog."C",
    is_trashed smallint DEFAULT 0,
    version bigint DEFAULT 1,
    current_version_uuid text COLLATE pg_catalog."C",
    preserve_version smallint DEFAULT 0,
    file_count bigint DEFAULT 0,
    file_size_total bigint DEFAULT 0
);
CREATE TABLE public.container_attempts (
    container_uuid text NOT NULL,
    request_uuid text NOT NULL
);
CREATE TABLE public.container_inputs (
    portable_data_hash text NOT NULL,
    container_uuid text NOT NULL
);
CREATE TABLE public.container_requests (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text,
    state text DEFAULT 'Uncommitted'::text COLLATE pg_catalog."C",
    requesting_container_uuid text COLLATE pg_catalog."C",
    container_uuid text COLLATE pg_catalog."C",
    container_count_max bigint,
    container_count bigint DEFAULT 0,
    attempted_container_uuids public.lading_json DEFAULT '[]'::text,
    command public.lading_json DEFAULT '[]'::text,
    container_image text COLLATE pg_catalog."C",
    cwd text DEFAULT '.'::text COLLATE pg_catalog."C",
    environment public.lading_json DEFAULT '{}'::text,
    mounts public.lading_json DEFAULT '{}'::text,
    secret_mounts text DEFAULT '{}'::text COLLATE pg_catalog."C",
    runtime_constraints public.lading_json DEFAULT '{}'::text,
    scheduling_parameters public.lading_json DEFAULT '{}'::text,
    output_path text COLLATE pg_catalog."C",
    output_glob public.lading_json DEFAULT '[]'::text,
    output_storage_classes public.lading_json DEFAULT '["default"]'::text,
    output_properties public.lading_json DEFAULT '{}'::text,
    runtime_token text COLLATE pg_catalog."C",
    service smallint DEFAULT 0,
    published_ports public.lading_json DEFAULT '{}'::text,
    output_name text COLLATE pg_catalog."C",
    output_ttl bigint DEFAULT 0,
    priority bigint,
    use_existing smallint DEFAULT 1,
    expires_at text COLLATE pg_catalog."C",
    filters public.lading_json,
    depends_on public.lading_json DEFAULT '[]'::text,
    start_after text COLLATE pg_catalog."C",
    log_uuid text COLLATE pg_catalog."C",
    output_uuid text COLLATE pg_catalog."C",
    cumulative_cost double precision DEFAULT 0.0,
    committed_by_uuid text COLLATE pg_catalog."C",
    resolving smallint DEFAULT 0
);
ALTER TABLE ONLY public.container_requests ALTER COLUMN state SET STATISTICS 0;
CREATE TABLE public.containers (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    state text DEFAULT 'Queued'::text COLLATE pg_catalog."C",
    command public.lading_json DEFAULT '[]'::text,
    container_image text COLLATE pg_catalog."C",
    cwd text DEFAULT '.'::text COLLATE pg_catalog."C",
    environment public.lading_json DEFAULT '{}'::text,
    mounts public.lading_json DEFAULT '{}'::text,
    secret_mounts text DEFAULT '{}'::text COLLATE pg_catalog."C",
    runtime_constraints public.lading_json DEFAULT '{}'::text,
    scheduling_parameters public.lading_json DEFAULT '{}'::text,
    output_path text COLLATE pg_catalog."C",
    output_glob public.lading_json DEFAULT '[]'::text,
    output_storage_classes public.lading_json DEFAULT '["default"]'::text,
    output_properties public.lading_json DEFAULT '{}'::text,
    runtime_token text COLLATE pg_catalog."C",
    service smallint DEFAULT 0,
    published_ports public.lading_json DEFAULT '{}'::text,
    constraint_ranges public.lading_json DEFAULT '{}'::text,
    priority bigint DEFAULT 0,
    runtime_user_uuid text COLLATE pg_catalog."C",
    runtime_auth_scopes public.lading_json,
    locked_by_uuid text COLLATE pg_catalog."C",
    auth_uuid text COLLATE pg_catalog."C",
    lock_count bigint DEFAULT 0,
    runtime_status public.lading_json DEFAULT '{}'::text,
    progress double precision,
    log text COLLATE pg_catalog."C",
    output text COLLATE pg_catalog."C",
    exit_code bigint,
    cost double precision DEFAULT 0.0,
    subrequests_cost double precision DEFAULT 0.0,
    started_at text COLLATE pg_catalog."C",
    finished_at text COLLATE pg_catalog."C",
    gateway_address text DEFAULT ''::text COLLATE pg_catalog."C",
    interactive_session_started smallint DEFAULT 0,
    supervisor_auth_uuid text COLLATE pg_catalog."C",
    secret_mounts_md5 text COLLATE pg_catalog."C",
    reuse_key text COLLATE pg_catalog."C",
    broad_key text COLLATE pg_catalog."C"
);
ALTER TABLE ONLY public.containers ALTER COLUMN state SET STATISTICS 0;
CREATE TABLE public.credentials (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    credential_class text COLLATE pg_catalog."C",
    scopes public.lading_json DEFAULT '[]'::text,
    external_id text COLLATE pg_catalog."C",
    secret text COLLATE pg_catalog."C",
    expires_at text COLLATE pg_catalog."C"
);
CREATE TABLE public.dispatcher_leases (
    token_uuid text NOT NULL,
    holder text NOT NULL,
    renewed_at text NOT NULL
);
CREATE TABLE public.dispatchers (
    uuid text NOT NULL,
    reported_at text NOT NULL
);
CREATE TABLE public.grants (
    subject_uuid text NOT NULL COLLATE pg_catalog."C",
    target_uuid text NOT NULL COLLATE pg_catalog."C",
    level bigint NOT NULL,
    owning bigint NOT NULL
);
CREATE TABLE public.group_standing (
    uuid text NOT NULL COLLATE pg_catalog."C",
    trash_at text COLLATE pg_catalog."C",
    frozen bigint NOT NULL
);
CREATE TABLE public.groups (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    group_class text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text,
    trash_at text COLLATE pg_catalog."C",
    delete_at text COLLATE pg_catalog."C",
    is_trashed smallint DEFAULT 0,
    frozen_by_uuid text COLLATE pg_catalog."C"
);
CREATE TABLE public.links (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    link_class text DEFAULT ''::text COLLATE pg_catalog."C",
    name text DEFAULT ''::text COLLATE pg_catalog."C",
    tail_uuid text COLLATE pg_catalog."C",
    head_uuid text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text
);
CREATE TABLE public.logs (
    id bigint NOT NULL,
    uuid text COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    object_uuid text COLLATE pg_catalog."C",
    object_owner_uuid text COLLATE pg_catalog."C",
    event_at text COLLATE pg_catalog."C",
    event_type text COLLATE pg_catalog."C",
    summary text COLLATE pg_catalog."C",
    properties public.lading_json DEFAULT '{}'::text
);
ALTER TABLE public.logs ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.logs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.memberships (
    user_uuid text NOT NULL COLLATE pg_catalog."C",
    subject_uuid text NOT NULL COLLATE pg_catalog."C",
    level bigint NOT NULL
);
CREATE TABLE public.repositories (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    fetch_url text COLLATE pg_catalog."C"
);
CREATE TABLE public.request_dependencies (
    dependent_uuid text NOT NULL,
    dependency_uuid text NOT NULL
);
CREATE TABLE public.scheduling_statuses (
    container_uuid text NOT NULL,
    dispatcher_uuid text NOT NULL,
    reason text NOT NULL,
    sentence text NOT NULL
);
CREATE TABLE public.schema_versions (
    version integer NOT NULL,
    applied_at text NOT NULL,
    name text
);
CREATE TABLE public.users (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    email text COLLATE pg_catalog."C",
    username text COLLATE pg_catalog."C",
    first_name text DEFAULT ''::text COLLATE pg_catalog."C",
    last_name text DEFAULT ''::text COLLATE pg_catalog."C",
    identity_url text COLLATE pg_catalog."C",
    is_active smallint DEFAULT 1,
    is_admin smallint DEFAULT 0,
    prefs public.lading_json DEFAULT '{}'::text,
    redirect_to_user_uuid text COLLATE pg_catalog."C"
);
CREATE TABLE public.virtual_machines (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    hostname text COLLATE pg_catalog."C"
);
CREATE TABLE public.workflows (
    uuid text NOT NULL COLLATE pg_catalog."C",
    owner_uuid text COLLATE pg_catalog."C",
    created_at text COLLATE pg_catalog."C",
    modified_at text COLLATE pg_catalog."C",
    modified_by_user_uuid text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    description text COLLATE pg_catalog."C",
    definition text COLLATE pg_catalog."C",
    collection_uuid text COLLATE pg_catalog."C"
);
INSERT INTO public.allocations VALUES ('zzzzz-dz642-b9y596jwspbogso', 'zzzzz-xvhdp-b9y596jtw4jg3qx', 'zzzzz-tpzed-b9y596jcuggbvsp', 1, 'Locked', '2026-01-02T03:04:05.090000000Z', '2026-01-02T03:04:05.096000000Z');
INSERT INTO public.allocations VALUES ('zzzzz-dz642-b9y596jwspbogso', 'zzzzz-xvhdp-b9y596jtw4jg3qx', 'zzzzz-tpzed-b9y596jcuggbvsp', 1, 'Running', '2026-01-02T03:04:05.096000000Z', '2026-01-02T03:04:05.116000000Z');
INSERT INTO public.allocations VALUES ('zzzzz-dz642-b9y596ky3cksol6', 'zzzzz-xvhdp-b9y596kvborr434', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 1000, 'Running', '2026-01-02T03:04:05.171000000Z', NULL);
INSERT INTO public.allocations VALUES ('zzzzz-dz642-b9y596ky3cksol6', 'zzzzz-xvhdp-b9y596kvborr434', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 1000, 'Locked', '2026-01-02T03:04:05.165000000Z', '2026-01-02T03:04:05.171000000Z');
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.005000000Z', '2026-01-02T03:04:05.005000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["all"]', '160b4e433e384e05e537dc59b467f7cb2403f0214db15c5db58862a3f1156d2e', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-ddddddddddddddd', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.007000000Z', '2026-01-02T03:04:05.007000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["GET /arvados/v1/containers","GET /arvados/v1/containers/","PUT /arvados/v1/containers/","POST /arvados/v1/containers/","POST /arvados/v1/dispatch/statuses","POST /arvados/v1/logs","GET /websocket"]', 'd7bea1c4096828f2a20e45524019f6987f3ec62807064bd240d23ec3a1be3990', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596jhslkdlnu', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.050000000Z', '2026-01-02T03:04:05.050000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '127.0.0.1', NULL, NULL, NULL, '["all"]', '2e09f844fdb632abb937a288ef603e247a99ad069b7e172a2c704886d36d02d0', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596k01dfepna', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.090000000Z', '2026-01-02T03:04:05.118000000Z', 'zzzzz-tpzed-000000000000000', NULL, '2026-01-02T03:04:05.118000000Z', NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso","GET /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso/","PUT /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso","PUT /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso/","POST /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso","POST /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso/","GET /arvados/v1/containers/current","GET /arvados/v1/users/current","GET /arvados/v1/collections/7b1921fee314b8aab5b2cd8488d5cfc1+117","POST /arvados/v1/collections"]', 'cf31129cb268b52a712fc6d1dc6b857cc6acaa168814ef532ac9278d5e263c99', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596k02sgjmoe', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.090000000Z', '2026-01-02T03:04:05.118000000Z', 'zzzzz-tpzed-000000000000000', NULL, '2026-01-02T03:04:05.118000000Z', NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso","PUT /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso","GET /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso/auth","POST /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso/unlock","POST /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso/live/","POST /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso/finish","POST /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso/gateway_tunnel","GET /arvados/v1/containers/zzzzz-dz642-b9y596jwspbogso/git_tree","GET /arvados/v1/users/current"]', '69f72d5f43326eb170b96efcdf92d7204056cbcb9decfea64d733608750728c1', 'zzzzz-dz642-b9y596jwspbogso');
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596l1k6izf3a', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.165000000Z', '2026-01-02T03:04:05.165000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6","GET /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6/","PUT /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6","PUT /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6/","POST /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6","POST /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6/","GET /arvados/v1/containers/current","GET /arvados/v1/users/current","GET /arvados/v1/collections/7b1921fee314b8aab5b2cd8488d5cfc1+117","POST /arvados/v1/collections"]', '61eef493b5d00c06798d582de806f73d638547ad66e0239f06affd711a80208b', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-b9y596l2cqze647', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.165000000Z', '2026-01-02T03:04:05.165000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6","PUT /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6","GET /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6/auth","POST /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6/unlock","POST /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6/live/","POST /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6/finish","POST /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6/gateway_tunnel","GET /arvados/v1/containers/zzzzz-dz642-b9y596ky3cksol6/git_tree","GET /arvados/v1/users/current"]', '5c16846e8648865ab0530bff194786d63d41a7d4d562042d78d7c2a489709d3f', 'zzzzz-dz642-b9y596ky3cksol6');
INSERT INTO public.collections VALUES ('zzzzz-4zz18-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.019000000Z', '2026-01-02T03:04:05.019000000Z', 'zzzzz-tpzed-000000000000000', 'empty collection', NULL, '{}', 'd41d8cd98f00b204e9800998ecf8427e+0', '', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-000000000000000', 0, 0, 0);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596jjy4stegf', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.054000000Z', '2026-01-02T03:04:05.054000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'O''Neill', NULL, '{"k":"v","n":5,"list":["a",1]}', '89d39e194d313850607aa996373d6625+47', '. 5d41402abc4b2a76b9719d911017c592+5 0:5:a.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596jjy4stegf', 0, 1, 5);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596jr32qmbrl', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.069000000Z', '2026-01-02T03:04:05.069000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', NULL, NULL, '{}', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '. 5312e17c8c92d7c946a5940990a0a9d9+8 0:8:sha256:0000000000000000000000000000000000000000000000000000000000000000.tar
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596jr32qmbrl', 0, 1, 8);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596k8yp17hzh', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.103000000Z', '2026-01-02T03:04:05.103000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', NULL, NULL, '{}', '6374cfd004cf66788217311bba3fb821+58', '. dde3d308a7b515d54fe1eebb1d9634b4+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, '2026-01-02T03:04:05.105000000Z', '2026-01-16T03:04:05.105000000Z', 1, 1, 'zzzzz-4zz18-b9y596k8yp17hzh', 0, 1, 27);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596kbp4y6nzs', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.110000000Z', '2026-01-02T03:04:05.110000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', NULL, NULL, '{}', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', '. 78e6221f6393d1356681db398f14ce6d+6 0:6:out.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, '2026-01-02T03:04:05.112000000Z', '2026-01-16T03:04:05.112000000Z', 1, 1, 'zzzzz-4zz18-b9y596kbp4y6nzs', 0, 1, 6);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596kh4qmm8dv', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.122000000Z', '2026-01-02T03:04:05.122000000Z', 'zzzzz-tpzed-000000000000000', 'Container log for request zzzzz-xvhdp-b9y596jtw4jg3qx', NULL, '{"type":"log","container_request":"zzzzz-xvhdp-b9y596jtw4jg3qx"}', '4d5a2ee08491145a3386813196151676+171', '. dde3d308a7b515d54fe1eebb1d9634b4+27 0:27:crunch-run.txt
./log\040for\040container\040zzzzz-dz642-b9y596jwspbogso dde3d308a7b515d54fe1eebb1d9634b4+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596kh4qmm8dv', 0, 2, 54);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596ki5z2f8q5', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.122000000Z', '2026-01-02T03:04:05.122000000Z', 'zzzzz-tpzed-000000000000000', 'Container output for request zzzzz-xvhdp-b9y596jtw4jg3qx', NULL, '{"type":"output","container_request":"zzzzz-xvhdp-b9y596jtw4jg3qx"}', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', '. 78e6221f6393d1356681db398f14ce6d+6 0:6:out.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596ki5z2f8q5', 0, 1, 6);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596kjvi6p1ql', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.122000000Z', '2026-01-02T03:04:05.122000000Z', 'zzzzz-tpzed-000000000000000', 'Container log for container zzzzz-dz642-b9y596jwspbogso', NULL, '{"type":"log","container_request":"zzzzz-xvhdp-b9y596jtw4jg3qx","container_uuid":"zzzzz-dz642-b9y596jwspbogso"}', '6374cfd004cf66788217311bba3fb821+58', '. dde3d308a7b515d54fe1eebb1d9634b4+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596kjvi6p1ql', 0, 1, 27);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-b9y596kmpfa1bmd', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.132000000Z', '2026-01-02T03:04:05.132000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '. 5312e17c8c92d7c946a5940990a0a9d9+8 0:8:sha256:0000000000000000000000000000000000000000000000000000000000000000.tar
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-b9y596kmpfa1bmd', 0, 1, 8);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-b9y596jtw4jg3qx', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.079000000Z', '2026-01-02T03:04:05.118000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, '{}', 'Final', NULL, 'zzzzz-dz642-b9y596jwspbogso', 3, 1, '[]', '["echo","1"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', NULL, 0, 1, 1, NULL, NULL, '[]', NULL, 'zzzzz-4zz18-b9y596kh4qmm8dv', 'zzzzz-4zz18-b9y596ki5z2f8q5', 0, 'zzzzz-tpzed-b9y596jcuggbvsp', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-b9y596kpemz9cq4', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.142000000Z', '2026-01-02T03:04:05.142000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'Committed', NULL, 'zzzzz-dz642-b9y596ksnf96apo', 3, 1, '[]', '["echo","2"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', 'sealed1:My+LEiQIP9IrkC+J6Kspd6OVE8XTDb/oExjzkOebMoTvozhsVJGfnlXu6qB9O4RK1y+Qs7zWdAY6MSpIBwJDeN9zBTCu', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', 'sealed1:EegYGPjJnV1dmDGVk7fxS/ofuxZ+7btVJ9MWOF7ePohZ7aOf2l7ntMWKe+vb5+IWZV4CbHTH5ZRZw0PLV+KAEhsO54xs9jOEb//nzbLyvcdQAIayIL9JyIDawbLTWeQ+zThfF0P1Ovi8trh/tQ==', 0, '{}', NULL, 0, 1, 1, NULL, NULL, '[]', NULL, NULL, NULL, 0, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-b9y596kvborr434', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.154000000Z', '2026-01-02T03:04:05.154000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'Committed', NULL, 'zzzzz-dz642-b9y596ky3cksol6', 3, 1, '[]', '["echo","3"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', NULL, 0, 1000, 1, NULL, NULL, '[]', NULL, NULL, NULL, 0, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-b9y596l7br0y5ka', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.177000000Z', '2026-01-02T03:04:05.186000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'later', NULL, '{}', 'Uncommitted', NULL, NULL, 3, 0, '[]', '["echo","4"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', NULL, 0, 1, 1, NULL, NULL, '["zzzzz-xvhdp-b9y596jtw4jg3qx"]', NULL, NULL, NULL, 0, NULL, 0);
INSERT INTO public.containers VALUES ('zzzzz-dz642-b9y596jwspbogso', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.079000000Z', '2026-01-02T03:04:05.118000000Z', 'zzzzz-tpzed-000000000000000', 'Complete', '["echo","1"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', '{}', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', '{}', 1124132583797545, 'zzzzz-tpzed-b9y596jcuggbvsp', '["all"]', NULL, NULL, 1, '{}', NULL, '6374cfd004cf66788217311bba3fb821+58', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', 0, 0, 0, '2026-01-02T03:04:05.094000000Z', '2026-01-02T03:04:05.116000000Z', '', 0, NULL, '99914b932bd37a50b983c5e7c90ae93b', '7ddc1492655671ada59a3e0e4a39a8553452bba82759e7d23989fc6dfd9f0df0', '0593027aedb5e64e346649d534b72dc5dc10f33a44ad7d520874c69b280c3a55');
INSERT INTO public.containers VALUES ('zzzzz-dz642-b9y596ksnf96apo', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.142000000Z', '2026-01-02T03:04:05.142000000Z', 'zzzzz-tpzed-000000000000000', 'Queued', '["echo","2"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', 'sealed1:OLTmUuRNp/I3DZ4ms2+A0xBfQydrHgHt7/nbLwznGtWiGLvLQ23b6MnFE6RYPOTLk2QiDEPoKoSFVqZDzJoQ2nCv1Q7b', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', 'sealed1:DicTZVCko6bQf1wMALH+yT8U35V+7lPVbFB1t5P0auZModCBjVFP2RVWsujSENIGdz8JuIkvCMKUJ/VpkF0xKRblPVnlou1MlBF0EbMOtw8xZzcznmfd2qajp5Wx4Dg8kfFSPKdZu1LRacfs5Q==', 0, '{}', '{}', 1124132583797482, 'zzzzz-tpzed-b9y596jcuggbvsp', '["all"]', NULL, NULL, 0, '{}', NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, '', 0, NULL, '2cafbeb8424de840068d6e5887c0932a', 'caa8b678b1ab0a38f6db908fa8b7eed394b88c4e59e7efe164bc598db8d85093', '1ddc27890efb99eb646ea3de141d48831b518b3388b967d4651141e652c0a61f');
INSERT INTO public.containers VALUES ('zzzzz-dz642-b9y596ky3cksol6', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.154000000Z', '2026-01-02T03:04:05.171000000Z', 'zzzzz-tpzed-000000000000000', 'Running', '["echo","3"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', '{}', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', '{}', 1125898139519578846, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '["all"]', 'zzzzz-gj3su-ddddddddddddddd', 'zzzzz-gj3su-b9y596l1k6izf3a', 1, '{}', NULL, NULL, NULL, NULL, 0, 0, '2026-01-02T03:04:05.169000000Z', NULL, '', 0, 'zzzzz-gj3su-b9y596l2cqze647', '99914b932bd37a50b983c5e7c90ae93b', '6fe07a8a2af448e4baf5972523d93f3c86e6821059fcaea8997c851539179393', '9e422c141a566aeea6ecb675ae9e67e48a97be5d8c6eb045a4335a9e9344543e');
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-anonymouspublic', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-000000000000000', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-fffffffffffffff', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-anonymouspublic', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-publicfavorites', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-j7d0g-anonymouspublic', 1, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-anonymouspublic', 1, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-publicfavorites', 1, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-anonymouspublic', 'zzzzz-4zz18-000000000000000', 1, 0);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-j7d0g-fffffffffffffff', 2, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 1, 0);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-tpzed-b9y596jcuggbvsp', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-j7d0g-fffffffffffffff', 2, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-b9y596jcuggbvsp', 1, 0);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-j7d0g-b9y596lae1kqvys', 3, 1);
INSERT INTO public.group_standing VALUES ('zzzzz-j7d0g-b9y596lae1kqvys', '2026-01-02T03:04:05.192000000Z', 0);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.011000000Z', '2026-01-02T03:04:05.011000000Z', 'zzzzz-tpzed-000000000000000', 'System group', 'role', NULL, '{}', NULL, NULL, 0, NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.013000000Z', '2026-01-02T03:04:05.013000000Z', 'zzzzz-tpzed-000000000000000', 'All users', 'role', NULL, '{}', NULL, NULL, 0, NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.015000000Z', '2026-01-02T03:04:05.015000000Z', 'zzzzz-tpzed-000000000000000', 'Anonymous users', 'role', NULL, '{}', NULL, NULL, 0, NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-publicfavorites', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.017000000Z', '2026-01-02T03:04:05.017000000Z', 'zzzzz-tpzed-000000000000000', 'Public favorites', 'project', NULL, '{}', NULL, NULL, 0, NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-b9y596lae1kqvys', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.180000000Z', '2026-01-02T03:04:05.193000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'work', 'project', NULL, '{}', '2026-01-02T03:04:05.192000000Z', '2026-01-16T03:04:05.192000000Z', 1, NULL);
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j25u8qhz1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.022000000Z', '2026-01-02T03:04:05.022000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-tpzed-anonymouspublic', 'zzzzz-j7d0g-anonymouspublic', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j4r1hb2h9', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.025000000Z', '2026-01-02T03:04:05.025000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-anonymouspublic', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j52wvewtw', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.028000000Z', '2026-01-02T03:04:05.028000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-publicfavorites', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j7h9gt0q2', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.031000000Z', '2026-01-02T03:04:05.031000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-anonymouspublic', 'zzzzz-4zz18-000000000000000', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596j8htvuium', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.034000000Z', '2026-01-02T03:04:05.034000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_write', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-j7d0g-fffffffffffffff', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596jasjnw94a', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.037000000Z', '2026-01-02T03:04:05.037000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596je4jaet90', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.043000000Z', '2026-01-02T03:04:05.043000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'permission', 'can_write', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-j7d0g-fffffffffffffff', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596jf4wx8uez', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.046000000Z', '2026-01-02T03:04:05.046000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-b9y596jcuggbvsp', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-b9y596jm3tozan8', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.060000000Z', '2026-01-02T03:04:05.060000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'tag', 't', NULL, 'zzzzz-4zz18-b9y596jjy4stegf', '{}');
INSERT INTO public.logs VALUES (1, 'zzzzz-57u5n-b9y596itic7nj0n', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.001000000Z', '2026-01-02T03:04:05.001000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.001000000Z', 'create', 'create of zzzzz-tpzed-000000000000000', '{"new_etag":"aebc0c0fdc50ba7fd5a32bc9f","new_attributes":{"uuid":"zzzzz-tpzed-000000000000000","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.001000000Z","modified_at":"2026-01-02T03:04:05.001000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","email":null,"username":"root","first_name":"root","last_name":"","identity_url":null,"is_active":true,"is_admin":true,"prefs":{}}}');
INSERT INTO public.logs VALUES (2, 'zzzzz-57u5n-b9y596iulwl2guf', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.003000000Z', '2026-01-02T03:04:05.003000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.003000000Z', 'create', 'create of zzzzz-tpzed-aaaaaaaaaaaaaaa', '{"new_etag":"f0a38221ad1968ce5c624489d","new_attributes":{"uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.003000000Z","modified_at":"2026-01-02T03:04:05.003000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","email":null,"username":"admin","first_name":"admin","last_name":"","identity_url":null,"is_active":true,"is_admin":true,"prefs":{}}}');
INSERT INTO public.logs VALUES (3, 'zzzzz-57u5n-b9y596ivw38wfjh', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.005000000Z', '2026-01-02T03:04:05.005000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-gj3su-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.005000000Z', 'create', 'create of zzzzz-gj3su-aaaaaaaaaaaaaaa', '{"new_etag":"5cf03278533af6b9336c90f10","new_attributes":{"uuid":"zzzzz-gj3su-aaaaaaaaaaaaaaa","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.005000000Z","modified_at":"2026-01-02T03:04:05.005000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","created_by_ip_address":null,"expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["all"]}}');
INSERT INTO public.logs VALUES (4, 'zzzzz-57u5n-b9y596iwuh50kc6', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.007000000Z', '2026-01-02T03:04:05.007000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-gj3su-ddddddddddddddd', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.007000000Z', 'create', 'create of zzzzz-gj3su-ddddddddddddddd', '{"new_etag":"abd193ebccc64b6dc41cbc72b","new_attributes":{"uuid":"zzzzz-gj3su-ddddddddddddddd","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.007000000Z","modified_at":"2026-01-02T03:04:05.007000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","created_by_ip_address":null,"expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["GET /arvados/v1/containers","GET /arvados/v1/containers/","PUT /arvados/v1/containers/","POST /arvados/v1/containers/","POST /arvados/v1/dispatch/statuses","POST /arvados/v1/logs","GET /websocket"]}}');
INSERT INTO public.logs VALUES (5, 'zzzzz-57u5n-b9y596ixw6exu58', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.009000000Z', '2026-01-02T03:04:05.009000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.009000000Z', 'create', 'create of zzzzz-tpzed-anonymouspublic', '{"new_etag":"93c35d228dd530761d15a3d08","new_attributes":{"uuid":"zzzzz-tpzed-anonymouspublic","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.009000000Z","modified_at":"2026-01-02T03:04:05.009000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","email":null,"username":null,"first_name":"Anonymous","last_name":"","identity_url":null,"is_active":false,"is_admin":false,"prefs":{}}}');
INSERT INTO public.logs VALUES (6, 'zzzzz-57u5n-b9y596iyl4rh2ro', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.011000000Z', '2026-01-02T03:04:05.011000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.011000000Z', 'create', 'create of zzzzz-j7d0g-000000000000000', '{"new_etag":"04b6b4cc194972c0244e40f5f","new_attributes":{"uuid":"zzzzz-j7d0g-000000000000000","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.011000000Z","modified_at":"2026-01-02T03:04:05.011000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"System group","group_class":"role","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (7, 'zzzzz-57u5n-b9y596iz06h82av', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.013000000Z', '2026-01-02T03:04:05.013000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.013000000Z', 'create', 'create of zzzzz-j7d0g-fffffffffffffff', '{"new_etag":"67831b0e33268f549501e9e71","new_attributes":{"uuid":"zzzzz-j7d0g-fffffffffffffff","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.013000000Z","modified_at":"2026-01-02T03:04:05.013000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"All users","group_class":"role","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (8, 'zzzzz-57u5n-b9y596j0eqgq3bv', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.015000000Z', '2026-01-02T03:04:05.015000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.015000000Z', 'create', 'create of zzzzz-j7d0g-anonymouspublic', '{"new_etag":"cdde68f5edefec86abe0f3af0","new_attributes":{"uuid":"zzzzz-j7d0g-anonymouspublic","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.015000000Z","modified_at":"2026-01-02T03:04:05.015000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Anonymous users","group_class":"role","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (9, 'zzzzz-57u5n-b9y596j1idzwxh2', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.017000000Z', '2026-01-02T03:04:05.017000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-publicfavorites', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.017000000Z', 'create', 'create of zzzzz-j7d0g-publicfavorites', '{"new_etag":"72bfe6c138de322738d91bc24","new_attributes":{"uuid":"zzzzz-j7d0g-publicfavorites","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.017000000Z","modified_at":"2026-01-02T03:04:05.017000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Public favorites","group_class":"project","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (10, 'zzzzz-57u5n-b9y596j2jem081f', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.019000000Z', '2026-01-02T03:04:05.019000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.019000000Z', 'create', 'create of zzzzz-4zz18-000000000000000', '{"new_etag":"f4e348af1b8476e96211a2b98","new_attributes":{"uuid":"zzzzz-4zz18-000000000000000","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.019000000Z","modified_at":"2026-01-02T03:04:05.019000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"empty collection","description":null,"properties":{},"portable_data_hash":"d41d8cd98f00b204e9800998ecf8427e+0","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-000000000000000","preserve_version":false,"file_count":0,"file_size_total":0}}');
INSERT INTO public.logs VALUES (11, 'zzzzz-57u5n-b9y596j3h7c74d8', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.022000000Z', '2026-01-02T03:04:05.022000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-b9y596j25u8qhz1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.022000000Z', 'create', 'create of zzzzz-o0j2j-b9y596j25u8qhz1', '{"new_etag":"d03c1cedcd19b2b6845c55fb3","new_attributes":{"uuid":"zzzzz-o0j2j-b9y596j25u8qhz1","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.022000000Z","modified_at":"2026-01-02T03:04:05.022000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-tpzed-anonymouspublic","head_uuid":"zzzzz-j7d0g-anonymouspublic","properties":{}}}');
INSERT INTO public.logs VALUES (12, 'zzzzz-57u5n-b9y596j582w15dj', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.025000000Z', '2026-01-02T03:04:05.025000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-b9y596j4r1hb2h9', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.025000000Z', 'create', 'create of zzzzz-o0j2j-b9y596j4r1hb2h9', '{"new_etag":"c77b5e60bd98e7fd7861501e8","new_attributes":{"uuid":"zzzzz-o0j2j-b9y596j4r1hb2h9","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.025000000Z","modified_at":"2026-01-02T03:04:05.025000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-j7d0g-fffffffffffffff","head_uuid":"zzzzz-j7d0g-anonymouspublic","properties":{}}}');
INSERT INTO public.logs VALUES (13, 'zzzzz-57u5n-b9y596j6pe1i9od', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.028000000Z', '2026-01-02T03:04:05.028000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-b9y596j52wvewtw', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.028000000Z', 'create', 'create of zzzzz-o0j2j-b9y596j52wvewtw', '{"new_etag":"3fb6b673a555c4bab9ac04bbd","new_attributes":{"uuid":"zzzzz-o0j2j-b9y596j52wvewtw","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.028000000Z","modified_at":"2026-01-02T03:04:05.028000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-j7d0g-fffffffffffffff","head_uuid":"zzzzz-j7d0g-publicfavorites","properties":{}}}');
INSERT INTO public.logs VALUES (14, 'zzzzz-57u5n-b9y596j8f8y7d8y', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.031000000Z', '2026-01-02T03:04:05.031000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-b9y596j7h9gt0q2', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.031000000Z', 'create', 'create of zzzzz-o0j2j-b9y596j7h9gt0q2', '{"new_etag":"36a4a5c361f36c3329617d78d","new_attributes":{"uuid":"zzzzz-o0j2j-b9y596j7h9gt0q2","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.031000000Z","modified_at":"2026-01-02T03:04:05.031000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-j7d0g-anonymouspublic","head_uuid":"zzzzz-4zz18-000000000000000","properties":{}}}');
INSERT INTO public.logs VALUES (15, 'zzzzz-57u5n-b9y596j9w3wmxdl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.034000000Z', '2026-01-02T03:04:05.034000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-b9y596j8htvuium', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.034000000Z', 'create', 'create of zzzzz-o0j2j-b9y596j8htvuium', '{"new_etag":"7550077e24631156d22e348da","new_attributes":{"uuid":"zzzzz-o0j2j-b9y596j8htvuium","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.034000000Z","modified_at":"2026-01-02T03:04:05.034000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_write","tail_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","head_uuid":"zzzzz-j7d0g-fffffffffffffff","properties":{}}}');
INSERT INTO public.logs VALUES (16, 'zzzzz-57u5n-b9y596jbuccwn59', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.037000000Z', '2026-01-02T03:04:05.037000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-b9y596jasjnw94a', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.037000000Z', 'create', 'create of zzzzz-o0j2j-b9y596jasjnw94a', '{"new_etag":"a8775a400319f93bb5b2d91a7","new_attributes":{"uuid":"zzzzz-o0j2j-b9y596jasjnw94a","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.037000000Z","modified_at":"2026-01-02T03:04:05.037000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-j7d0g-fffffffffffffff","head_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","properties":{}}}');
INSERT INTO public.logs VALUES (17, 'zzzzz-57u5n-b9y596jde4b8e4b', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.040000000Z', '2026-01-02T03:04:05.040000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.040000000Z', 'create', 'create of zzzzz-tpzed-b9y596jcuggbvsp', '{"new_etag":"30ac1e2858c77b0aff68129f2","new_attributes":{"uuid":"zzzzz-tpzed-b9y596jcuggbvsp","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.040000000Z","modified_at":"2026-01-02T03:04:05.040000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","email":"ada@example.org","username":"ada","first_name":"","last_name":"","identity_url":null,"is_active":true,"is_admin":false,"prefs":{}}}');
INSERT INTO public.logs VALUES (18, 'zzzzz-57u5n-b9y596je2zkkt8s', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.043000000Z', '2026-01-02T03:04:05.043000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-o0j2j-b9y596je4jaet90', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.043000000Z', 'create', 'create of zzzzz-o0j2j-b9y596je4jaet90', '{"new_etag":"20daad1c6944bb64eeb6b01b7","new_attributes":{"uuid":"zzzzz-o0j2j-b9y596je4jaet90","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.043000000Z","modified_at":"2026-01-02T03:04:05.043000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","link_class":"permission","name":"can_write","tail_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","head_uuid":"zzzzz-j7d0g-fffffffffffffff","properties":{}}}');
INSERT INTO public.logs VALUES (19, 'zzzzz-57u5n-b9y596jgvxinkrj', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.046000000Z', '2026-01-02T03:04:05.046000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-o0j2j-b9y596jf4wx8uez', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.046000000Z', 'create', 'create of zzzzz-o0j2j-b9y596jf4wx8uez', '{"new_etag":"bc10b8a782315a70bf00c29df","new_attributes":{"uuid":"zzzzz-o0j2j-b9y596jf4wx8uez","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.046000000Z","modified_at":"2026-01-02T03:04:05.046000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-j7d0g-fffffffffffffff","head_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","properties":{}}}');
INSERT INTO public.logs VALUES (20, 'zzzzz-57u5n-b9y596jigv4lvvs', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.050000000Z', '2026-01-02T03:04:05.050000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-gj3su-b9y596jhslkdlnu', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.050000000Z', 'create', 'create of zzzzz-gj3su-b9y596jhslkdlnu', '{"new_etag":"f912da9972f4a0cf43378b9b9","new_attributes":{"uuid":"zzzzz-gj3su-b9y596jhslkdlnu","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.050000000Z","modified_at":"2026-01-02T03:04:05.050000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_by_ip_address":"127.0.0.1","expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["all"]}}');
INSERT INTO public.logs VALUES (21, 'zzzzz-57u5n-b9y596jkapr0lfu', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.054000000Z', '2026-01-02T03:04:05.054000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-b9y596jjy4stegf', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.054000000Z', 'create', 'create of zzzzz-4zz18-b9y596jjy4stegf', '{"new_etag":"8477d289654f823beb8784218","new_attributes":{"uuid":"zzzzz-4zz18-b9y596jjy4stegf","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.054000000Z","modified_at":"2026-01-02T03:04:05.054000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":"O''Neill","description":null,"properties":{"k":"v","n":5,"list":["a",1]},"portable_data_hash":"89d39e194d313850607aa996373d6625+47","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-b9y596jjy4stegf","preserve_version":false,"file_count":1,"file_size_total":5}}');
INSERT INTO public.logs VALUES (22, 'zzzzz-57u5n-b9y596jn6zokvj0', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.060000000Z', '2026-01-02T03:04:05.060000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-o0j2j-b9y596jm3tozan8', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.060000000Z', 'create', 'create of zzzzz-o0j2j-b9y596jm3tozan8', '{"new_etag":"71bffa06e08fc87e5d9e82410","new_attributes":{"uuid":"zzzzz-o0j2j-b9y596jm3tozan8","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.060000000Z","modified_at":"2026-01-02T03:04:05.060000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","link_class":"tag","name":"t","tail_uuid":null,"head_uuid":"zzzzz-4zz18-b9y596jjy4stegf","properties":{}}}');
INSERT INTO public.logs VALUES (23, 'zzzzz-57u5n-b9y596jojajnpc6', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.064000000Z', '2026-01-02T03:04:05.064000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-b9y596jjy4stegf', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.064000000Z', 'note', NULL, '{"text":"Grüße ✓"}');
INSERT INTO public.logs VALUES (24, 'zzzzz-57u5n-b9y596jsylma25g', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.069000000Z', '2026-01-02T03:04:05.069000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-4zz18-b9y596jr32qmbrl', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.069000000Z', 'create', 'create of zzzzz-4zz18-b9y596jr32qmbrl', '{"new_etag":"91f56f1a5a12ee22277250724","new_attributes":{"uuid":"zzzzz-4zz18-b9y596jr32qmbrl","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.069000000Z","modified_at":"2026-01-02T03:04:05.069000000Z","modified_by_user_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","name":null,"description":null,"properties":{},"portable_data_hash":"7b1921fee314b8aab5b2cd8488d5cfc1+117","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-b9y596jr32qmbrl","preserve_version":false,"file_count":1,"file_size_total":8}}');
INSERT INTO public.logs VALUES (25, 'zzzzz-57u5n-b9y596jxhszqbjn', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.079000000Z', '2026-01-02T03:04:05.079000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-dz642-b9y596jwspbogso', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.079000000Z', 'create', 'create of zzzzz-dz642-b9y596jwspbogso', '{"new_etag":"9c38f347a2b4040f960528597","new_attributes":{"uuid":"zzzzz-dz642-b9y596jwspbogso","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.079000000Z","modified_at":"2026-01-02T03:04:05.079000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","state":"Queued","command":["echo","1"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"capacity":1000,"kind":"tmp"}},"runtime_constraints":{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"constraint_ranges":{},"priority":1124132583797545,"runtime_user_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"","interactive_session_started":false}}');
INSERT INTO public.logs VALUES (26, 'zzzzz-57u5n-b9y596jyge1mcnv', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.083000000Z', '2026-01-02T03:04:05.083000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-b9y596jtw4jg3qx', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.083000000Z', 'resolve', 'new zzzzz-dz642-b9y596jwspbogso: the same was never asked for before', '{"decision":"new","reason":"the same was never asked for before","container_uuid":"zzzzz-dz642-b9y596jwspbogso","candidates":[],"nearest":null,"near":[],"git":{}}');
INSERT INTO public.logs VALUES (27, 'zzzzz-57u5n-b9y596jyk47epwe', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.079000000Z', '2026-01-02T03:04:05.079000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-xvhdp-b9y596jtw4jg3qx', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.079000000Z', 'create', 'create of zzzzz-xvhdp-b9y596jtw4jg3qx', '{"new_etag":"ec31236e24c84b6632bb22959","new_attributes":{"uuid":"zzzzz-xvhdp-b9y596jtw4jg3qx","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.079000000Z","modified_at":"2026-01-02T03:04:05.079000000Z","modified_by_user_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","name":null,"description":null,"properties":{},"state":"Committed","requesting_container_uuid":null,"container_uuid":"zzzzz-dz642-b9y596jwspbogso","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["echo","1"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1,"use_existing":true,"expires_at":null,"filters":null,"depends_on":[],"start_after":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (28, 'zzzzz-57u5n-b9y596k2kr7n8t4', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.091000000Z', '2026-01-02T03:04:05.091000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-b9y596jwspbogso', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.091000000Z', 'update', 'update of zzzzz-dz642-b9y596jwspbogso', '{"old_etag":"9c38f347a2b4040f960528597","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.079000000Z","state":"Queued","locked_by_uuid":null,"auth_uuid":null,"lock_count":0},"new_etag":"3e45d8467d59d42951c97e7c3","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.090000000Z","state":"Locked","locked_by_uuid":"zzzzz-gj3su-ddddddddddddddd","auth_uuid":"zzzzz-gj3su-b9y596k01dfepna","lock_count":1}}');
INSERT INTO public.logs VALUES (29, 'zzzzz-57u5n-b9y596k5ah1icei', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.097000000Z', '2026-01-02T03:04:05.097000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-b9y596jwspbogso', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.097000000Z', 'update', 'update of zzzzz-dz642-b9y596jwspbogso', '{"old_etag":"3e45d8467d59d42951c97e7c3","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.090000000Z","state":"Locked","started_at":null},"new_etag":"c278ea73abe4d8e5f86373c9a","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.096000000Z","state":"Running","started_at":"2026-01-02T03:04:05.094000000Z"}}');
INSERT INTO public.logs VALUES (30, 'zzzzz-57u5n-b9y596k936lwqm2', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.103000000Z', '2026-01-02T03:04:05.103000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-4zz18-b9y596k8yp17hzh', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.103000000Z', 'create', 'create of zzzzz-4zz18-b9y596k8yp17hzh', '{"new_etag":"61a77113bf06b7d5568911015","new_attributes":{"uuid":"zzzzz-4zz18-b9y596k8yp17hzh","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.103000000Z","modified_at":"2026-01-02T03:04:05.103000000Z","modified_by_user_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","name":null,"description":null,"properties":{},"portable_data_hash":"6374cfd004cf66788217311bba3fb821+58","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":"2026-01-02T03:04:05.105000000Z","delete_at":"2026-01-16T03:04:05.105000000Z","is_trashed":true,"version":1,"current_version_uuid":"zzzzz-4zz18-b9y596k8yp17hzh","preserve_version":false,"file_count":1,"file_size_total":27}}');
INSERT INTO public.logs VALUES (31, 'zzzzz-57u5n-b9y596kcpdtc2pi', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.110000000Z', '2026-01-02T03:04:05.110000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-4zz18-b9y596kbp4y6nzs', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.110000000Z', 'create', 'create of zzzzz-4zz18-b9y596kbp4y6nzs', '{"new_etag":"c84148c0ac7b7ffc4ccf2a8df","new_attributes":{"uuid":"zzzzz-4zz18-b9y596kbp4y6nzs","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.110000000Z","modified_at":"2026-01-02T03:04:05.110000000Z","modified_by_user_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","name":null,"description":null,"properties":{},"portable_data_hash":"dd8572c295693ec8dda7d6a1a6cd1f6c+49","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":"2026-01-02T03:04:05.112000000Z","delete_at":"2026-01-16T03:04:05.112000000Z","is_trashed":true,"version":1,"current_version_uuid":"zzzzz-4zz18-b9y596kbp4y6nzs","preserve_version":false,"file_count":1,"file_size_total":6}}');
INSERT INTO public.logs VALUES (32, 'zzzzz-57u5n-b9y596kg8fzjuaq', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.119000000Z', '2026-01-02T03:04:05.119000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-b9y596jwspbogso', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.119000000Z', 'update', 'update of zzzzz-dz642-b9y596jwspbogso', '{"old_etag":"c278ea73abe4d8e5f86373c9a","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.096000000Z","state":"Running","locked_by_uuid":"zzzzz-gj3su-ddddddddddddddd","auth_uuid":"zzzzz-gj3su-b9y596k01dfepna","log":null,"output":null,"exit_code":null,"finished_at":null},"new_etag":"87144ae262fb60f0b014a20f8","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.118000000Z","state":"Complete","locked_by_uuid":null,"auth_uuid":null,"log":"6374cfd004cf66788217311bba3fb821+58","output":"dd8572c295693ec8dda7d6a1a6cd1f6c+49","exit_code":0,"finished_at":"2026-01-02T03:04:05.116000000Z"}}');
INSERT INTO public.logs VALUES (33, 'zzzzz-57u5n-b9y596kiu5xoweh', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.122000000Z', '2026-01-02T03:04:05.122000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-b9y596kh4qmm8dv', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.122000000Z', 'create', 'create of zzzzz-4zz18-b9y596kh4qmm8dv', '{"new_etag":"2c0427df37029a9eb17c97b1d","new_attributes":{"uuid":"zzzzz-4zz18-b9y596kh4qmm8dv","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.122000000Z","modified_at":"2026-01-02T03:04:05.122000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Container log for request zzzzz-xvhdp-b9y596jtw4jg3qx","description":null,"properties":{"type":"log","container_request":"zzzzz-xvhdp-b9y596jtw4jg3qx"},"portable_data_hash":"4d5a2ee08491145a3386813196151676+171","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-b9y596kh4qmm8dv","preserve_version":false,"file_count":2,"file_size_total":54}}');
INSERT INTO public.logs VALUES (34, 'zzzzz-57u5n-b9y596kj9pdqvyq', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.122000000Z', '2026-01-02T03:04:05.122000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-b9y596ki5z2f8q5', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.122000000Z', 'create', 'create of zzzzz-4zz18-b9y596ki5z2f8q5', '{"new_etag":"6ce4cf3a53f42e649dce4dca9","new_attributes":{"uuid":"zzzzz-4zz18-b9y596ki5z2f8q5","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.122000000Z","modified_at":"2026-01-02T03:04:05.122000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Container output for request zzzzz-xvhdp-b9y596jtw4jg3qx","description":null,"properties":{"type":"output","container_request":"zzzzz-xvhdp-b9y596jtw4jg3qx"},"portable_data_hash":"dd8572c295693ec8dda7d6a1a6cd1f6c+49","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-b9y596ki5z2f8q5","preserve_version":false,"file_count":1,"file_size_total":6}}');
INSERT INTO public.logs VALUES (35, 'zzzzz-57u5n-b9y596kkurwyq3n', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.122000000Z', '2026-01-02T03:04:05.122000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-b9y596kjvi6p1ql', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.122000000Z', 'create', 'create of zzzzz-4zz18-b9y596kjvi6p1ql', '{"new_etag":"9170e2c41f8e5acbf5e45d2e1","new_attributes":{"uuid":"zzzzz-4zz18-b9y596kjvi6p1ql","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.122000000Z","modified_at":"2026-01-02T03:04:05.122000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Container log for container zzzzz-dz642-b9y596jwspbogso","description":null,"properties":{"type":"log","container_request":"zzzzz-xvhdp-b9y596jtw4jg3qx","container_uuid":"zzzzz-dz642-b9y596jwspbogso"},"portable_data_hash":"6374cfd004cf66788217311bba3fb821+58","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-b9y596kjvi6p1ql","preserve_version":false,"file_count":1,"file_size_total":27}}');
INSERT INTO public.logs VALUES (36, 'zzzzz-57u5n-b9y596klzug4mds', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.129000000Z', '2026-01-02T03:04:05.129000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-b9y596jtw4jg3qx', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.129000000Z', 'update', 'update of zzzzz-xvhdp-b9y596jtw4jg3qx', '{"old_etag":"ec31236e24c84b6632bb22959","old_attributes":{"owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","modified_at":"2026-01-02T03:04:05.079000000Z","modified_by_user_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","name":null,"state":"Committed","requesting_container_uuid":null,"log_uuid":null,"output_uuid":null},"new_etag":"ac69d5230c84168a5f41feafc","new_attributes":{"owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","modified_at":"2026-01-02T03:04:05.118000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":null,"state":"Final","requesting_container_uuid":null,"log_uuid":"zzzzz-4zz18-b9y596kh4qmm8dv","output_uuid":"zzzzz-4zz18-b9y596ki5z2f8q5"}}');
INSERT INTO public.logs VALUES (37, 'zzzzz-57u5n-b9y596kneei4h5u', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.132000000Z', '2026-01-02T03:04:05.132000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-b9y596kmpfa1bmd', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.132000000Z', 'create', 'create of zzzzz-4zz18-b9y596kmpfa1bmd', '{"new_etag":"ec7492d8d33a43239380526d5","new_attributes":{"uuid":"zzzzz-4zz18-b9y596kmpfa1bmd","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.132000000Z","modified_at":"2026-01-02T03:04:05.132000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"portable_data_hash":"7b1921fee314b8aab5b2cd8488d5cfc1+117","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-b9y596kmpfa1bmd","preserve_version":false,"file_count":1,"file_size_total":8}}');
INSERT INTO public.logs VALUES (38, 'zzzzz-57u5n-b9y596kshwnskkc', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.142000000Z', '2026-01-02T03:04:05.142000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-dz642-b9y596ksnf96apo', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.142000000Z', 'create', 'create of zzzzz-dz642-b9y596ksnf96apo', '{"new_etag":"89f86d2ac24be31541da6d5c6","new_attributes":{"uuid":"zzzzz-dz642-b9y596ksnf96apo","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.142000000Z","modified_at":"2026-01-02T03:04:05.142000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","state":"Queued","command":["echo","2"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"capacity":1000,"kind":"tmp"}},"runtime_constraints":{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"constraint_ranges":{},"priority":1124132583797482,"runtime_user_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"","interactive_session_started":false}}');
INSERT INTO public.logs VALUES (39, 'zzzzz-57u5n-b9y596ktv362dq2', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.146000000Z', '2026-01-02T03:04:05.146000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-b9y596kpemz9cq4', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.146000000Z', 'resolve', 'new zzzzz-dz642-b9y596ksnf96apo: the same was never asked for before', '{"decision":"new","reason":"the same was never asked for before","container_uuid":"zzzzz-dz642-b9y596ksnf96apo","candidates":[],"nearest":null,"near":[],"git":{}}');
INSERT INTO public.logs VALUES (40, 'zzzzz-57u5n-b9y596ku62p638g', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.142000000Z', '2026-01-02T03:04:05.142000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-xvhdp-b9y596kpemz9cq4', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.142000000Z', 'create', 'create of zzzzz-xvhdp-b9y596kpemz9cq4', '{"new_etag":"df77e7001010ff55d994f3b10","new_attributes":{"uuid":"zzzzz-xvhdp-b9y596kpemz9cq4","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.142000000Z","modified_at":"2026-01-02T03:04:05.142000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"state":"Committed","requesting_container_uuid":null,"container_uuid":"zzzzz-dz642-b9y596ksnf96apo","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["echo","2"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1,"use_existing":true,"expires_at":null,"filters":null,"depends_on":[],"start_after":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (41, 'zzzzz-57u5n-b9y596kybrhjbwa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.154000000Z', '2026-01-02T03:04:05.154000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-dz642-b9y596ky3cksol6', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.154000000Z', 'create', 'create of zzzzz-dz642-b9y596ky3cksol6', '{"new_etag":"dbcf7f67a77d91cf8e2d5cd84","new_attributes":{"uuid":"zzzzz-dz642-b9y596ky3cksol6","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.154000000Z","modified_at":"2026-01-02T03:04:05.154000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","state":"Queued","command":["echo","3"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"capacity":1000,"kind":"tmp"}},"runtime_constraints":{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"constraint_ranges":{},"priority":1125898139519578846,"runtime_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"","interactive_session_started":false}}');
INSERT INTO public.logs VALUES (42, 'zzzzz-57u5n-b9y596kz1z13yxz', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.158000000Z', '2026-01-02T03:04:05.158000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-b9y596kvborr434', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.158000000Z', 'resolve', 'new zzzzz-dz642-b9y596ky3cksol6: the same was never asked for before', '{"decision":"new","reason":"the same was never asked for before","container_uuid":"zzzzz-dz642-b9y596ky3cksol6","candidates":[],"nearest":null,"near":[],"git":{}}');
INSERT INTO public.logs VALUES (43, 'zzzzz-57u5n-b9y596l0cun76bu', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.154000000Z', '2026-01-02T03:04:05.154000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-xvhdp-b9y596kvborr434', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.154000000Z', 'create', 'create of zzzzz-xvhdp-b9y596kvborr434', '{"new_etag":"76cb85ed93ae02340d4e2987c","new_attributes":{"uuid":"zzzzz-xvhdp-b9y596kvborr434","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.154000000Z","modified_at":"2026-01-02T03:04:05.154000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"state":"Committed","requesting_container_uuid":null,"container_uuid":"zzzzz-dz642-b9y596ky3cksol6","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["echo","3"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1000,"use_existing":true,"expires_at":null,"filters":null,"depends_on":[],"start_after":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (44, 'zzzzz-57u5n-b9y596l36we86gm', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.166000000Z', '2026-01-02T03:04:05.166000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-b9y596ky3cksol6', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.166000000Z', 'update', 'update of zzzzz-dz642-b9y596ky3cksol6', '{"old_etag":"dbcf7f67a77d91cf8e2d5cd84","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.154000000Z","state":"Queued","locked_by_uuid":null,"auth_uuid":null,"lock_count":0},"new_etag":"11843119a0228229e87fdb494","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.165000000Z","state":"Locked","locked_by_uuid":"zzzzz-gj3su-ddddddddddddddd","auth_uuid":"zzzzz-gj3su-b9y596l1k6izf3a","lock_count":1}}');
INSERT INTO public.logs VALUES (45, 'zzzzz-57u5n-b9y596l6oanxjxw', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.172000000Z', '2026-01-02T03:04:05.172000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-b9y596ky3cksol6', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.172000000Z', 'update', 'update of zzzzz-dz642-b9y596ky3cksol6', '{"old_etag":"11843119a0228229e87fdb494","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.165000000Z","state":"Locked","started_at":null},"new_etag":"92416826deb430401863c9f8e","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.171000000Z","state":"Running","started_at":"2026-01-02T03:04:05.169000000Z"}}');
INSERT INTO public.logs VALUES (46, 'zzzzz-57u5n-b9y596l95e1s7qz', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.177000000Z', '2026-01-02T03:04:05.177000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-xvhdp-b9y596l7br0y5ka', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.177000000Z', 'create', 'create of zzzzz-xvhdp-b9y596l7br0y5ka', '{"new_etag":"c10653d0997f70cd8aa88252a","new_attributes":{"uuid":"zzzzz-xvhdp-b9y596l7br0y5ka","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.177000000Z","modified_at":"2026-01-02T03:04:05.177000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"state":"Uncommitted","requesting_container_uuid":null,"container_uuid":null,"container_count_max":3,"container_count":0,"attempted_container_uuids":[],"command":["echo","4"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1,"use_existing":true,"expires_at":null,"filters":null,"depends_on":[],"start_after":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (47, 'zzzzz-57u5n-b9y596lbh7162k0', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.180000000Z', '2026-01-02T03:04:05.180000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-j7d0g-b9y596lae1kqvys', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.180000000Z', 'create', 'create of zzzzz-j7d0g-b9y596lae1kqvys', '{"new_etag":"314964212243b95af011ebb7e","new_attributes":{"uuid":"zzzzz-j7d0g-b9y596lae1kqvys","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.180000000Z","modified_at":"2026-01-02T03:04:05.180000000Z","modified_by_user_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","name":"work","group_class":"project","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (48, 'zzzzz-57u5n-b9y596leq7tx9r8', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.188000000Z', '2026-01-02T03:04:05.188000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-xvhdp-b9y596l7br0y5ka', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.188000000Z', 'update', 'update of zzzzz-xvhdp-b9y596l7br0y5ka', '{"old_etag":"c10653d0997f70cd8aa88252a","old_attributes":{"owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","modified_at":"2026-01-02T03:04:05.177000000Z","name":null,"state":"Uncommitted","requesting_container_uuid":null,"depends_on":[]},"new_etag":"02fb0405d23b55d1723cf6250","new_attributes":{"owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","modified_at":"2026-01-02T03:04:05.186000000Z","name":"later","state":"Uncommitted","requesting_container_uuid":null,"depends_on":["zzzzz-xvhdp-b9y596jtw4jg3qx"]}}');
INSERT INTO public.logs VALUES (49, 'zzzzz-57u5n-b9y596lhlt9nk3l', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.194000000Z', '2026-01-02T03:04:05.194000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-j7d0g-b9y596lae1kqvys', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.194000000Z', 'update', 'update of zzzzz-j7d0g-b9y596lae1kqvys', '{"old_etag":"314964212243b95af011ebb7e","old_attributes":{"owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","modified_at":"2026-01-02T03:04:05.180000000Z","name":"work","trash_at":null,"delete_at":null,"is_trashed":false},"new_etag":"41e73e5cdb9613429fbf3b319","new_attributes":{"owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","modified_at":"2026-01-02T03:04:05.193000000Z","name":"work","trash_at":"2026-01-02T03:04:05.192000000Z","delete_at":"2026-01-16T03:04:05.192000000Z","is_trashed":true}}');
INSERT INTO public.logs VALUES (50, 'zzzzz-57u5n-b9y596lkffxpz1o', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.198000000Z', '2026-01-02T03:04:05.198000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-7fd4e-b9y596lj74ech6j', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.198000000Z', 'create', 'create of zzzzz-7fd4e-b9y596lj74ech6j', '{"new_etag":"720ff347adfb674712eeda886","new_attributes":{"uuid":"zzzzz-7fd4e-b9y596lj74ech6j","owner_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","created_at":"2026-01-02T03:04:05.198000000Z","modified_at":"2026-01-02T03:04:05.198000000Z","modified_by_user_uuid":"zzzzz-tpzed-b9y596jcuggbvsp","name":"W","description":null,"definition":"name: w\n","collection_uuid":null}}');
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-anonymouspublic', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-j7d0g-anonymouspublic', 1);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-j7d0g-fffffffffffffff', 2);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-j7d0g-anonymouspublic', 1);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-tpzed-b9y596jcuggbvsp', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-j7d0g-fffffffffffffff', 2);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-j7d0g-anonymouspublic', 1);
INSERT INTO public.schema_versions VALUES (1, '2026-01-02T03:04:05.000000000Z', 'first tables');
INSERT INTO public.schema_versions VALUES (2, '2026-01-02T03:04:05.000000000Z', 'seal runtime tokens');
INSERT INTO public.schema_versions VALUES (3, '2026-01-02T03:04:05.000000000Z', 'name the steps');
INSERT INTO public.schema_versions VALUES (4, '2026-01-02T03:04:05.000000000Z', 'broad keys of containers');
INSERT INTO public.schema_versions VALUES (5, '2026-01-02T03:04:05.000000000Z', 'indexes without nulls');
INSERT INTO public.schema_versions VALUES (6, '2026-01-02T03:04:05.000000000Z', 'seal secret mounts');
INSERT INTO public.schema_versions VALUES (7, '2026-01-02T03:04:05.000000000Z', 'inputs of containers');
INSERT INTO public.schema_versions VALUES (8, '2026-01-02T03:04:05.000000000Z', 'one index for both keys');
INSERT INTO public.schema_versions VALUES (9, '2026-01-02T03:04:05.000000000Z', 'states without statistics');
INSERT INTO public.schema_versions VALUES (10, '2026-01-02T03:04:05.000000000Z', 'a quicker check of nested values');
INSERT INTO public.schema_versions VALUES (11, '2026-01-02T03:04:05.000000000Z', 'attempts of requests');
INSERT INTO public.users VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.001000000Z', '2026-01-02T03:04:05.001000000Z', 'zzzzz-tpzed-000000000000000', NULL, 'root', 'root', '', NULL, 1, 1, '{}', NULL);
INSERT INTO public.users VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.003000000Z', '2026-01-02T03:04:05.003000000Z', 'zzzzz-tpzed-000000000000000', NULL, 'admin', 'admin', '', NULL, 1, 1, '{}', NULL);
INSERT INTO public.users VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.009000000Z', '2026-01-02T03:04:05.009000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'Anonymous', '', NULL, 0, 0, '{}', NULL);
INSERT INTO public.users VALUES ('zzzzz-tpzed-b9y596jcuggbvsp', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.040000000Z', '2026-01-02T03:04:05.040000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'ada@example.org', 'ada', '', '', NULL, 1, 0, '{}', NULL);
INSERT INTO public.workflows VALUES ('zzzzz-7fd4e-b9y596lj74ech6j', 'zzzzz-tpzed-b9y596jcuggbvsp', '2026-01-02T03:04:05.198000000Z', '2026-01-02T03:04:05.198000000Z', 'zzzzz-tpzed-b9y596jcuggbvsp', 'W', NULL, 'name: w
', NULL);
SELECT pg_catalog.setval('public.logs_id_seq', 50, true);
ALTER TABLE ONLY public.api_client_authorizations
    ADD CONSTRAINT api_client_authorizations_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.authorized_keys
    ADD CONSTRAINT authorized_keys_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.collections
    ADD CONSTRAINT collections_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.container_attempts
    ADD CONSTRAINT container_attempts_pkey PRIMARY KEY (container_uuid, request_uuid);
ALTER TABLE ONLY public.container_inputs
    ADD CONSTRAINT container_inputs_pkey PRIMARY KEY (portable_data_hash, container_uuid);
ALTER TABLE ONLY public.container_requests
    ADD CONSTRAINT container_requests_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.containers
    ADD CONSTRAINT containers_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.dispatcher_leases
    ADD CONSTRAINT dispatcher_leases_pkey PRIMARY KEY (token_uuid);
ALTER TABLE ONLY public.dispatchers
    ADD CONSTRAINT dispatchers_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (subject_uuid, target_uuid);
ALTER TABLE ONLY public.group_standing
    ADD CONSTRAINT group_standing_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.groups
    ADD CONSTRAINT groups_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.links
    ADD CONSTRAINT links_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.logs
    ADD CONSTRAINT logs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.logs
    ADD CONSTRAINT logs_uuid_key UNIQUE (uuid);
ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT memberships_pkey PRIMARY KEY (user_uuid, subject_uuid);
ALTER TABLE ONLY public.repositories
    ADD CONSTRAINT repositories_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.request_dependencies
    ADD CONSTRAINT request_dependencies_pkey PRIMARY KEY (dependency_uuid, dependent_uuid);
ALTER TABLE ONLY public.scheduling_statuses
    ADD CONSTRAINT scheduling_statuses_pkey PRIMARY KEY (container_uuid, dispatcher_uuid);
ALTER TABLE ONLY public.schema_versions
    ADD CONSTRAINT schema_versions_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.virtual_machines
    ADD CONSTRAINT virtual_machines_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (uuid);
CREATE INDEX allocations_container_uuid ON public.allocations USING btree (container_uuid, started_at);
CREATE INDEX api_client_authorizations_container_uuid ON public.api_client_authorizations USING btree (container_uuid NULLS FIRST);
CREATE INDEX api_client_authorizations_owner_uuid ON public.api_client_authorizations USING btree (owner_uuid NULLS FIRST);
CREATE INDEX api_client_authorizations_secret_hash ON public.api_client_authorizations USING btree (secret_hash NULLS FIRST);
CREATE INDEX authorized_keys_authorized_user_uuid ON public.authorized_keys USING btree (authorized_user_uuid NULLS FIRST);
CREATE INDEX authorized_keys_modified_at_uuid ON public.authorized_keys USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX authorized_keys_owner_uuid ON public.authorized_keys USING btree (owner_uuid NULLS FIRST);
CREATE INDEX collections_created_at_uuid ON public.collections USING btree (created_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX collections_current_version_uuid ON public.collections USING btree (current_version_uuid NULLS FIRST);
CREATE INDEX collections_modified_at_uuid ON public.collections USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX collections_owner_uuid_modified_at ON public.collections USING btree (owner_uuid NULLS FIRST, modified_at NULLS FIRST);
CREATE INDEX collections_portable_data_hash ON public.collections USING btree (portable_data_hash NULLS FIRST);
CREATE INDEX container_attempts_request_uuid ON public.container_attempts USING btree (request_uuid);
CREATE INDEX container_requests_container_uuid_state ON public.container_requests USING btree (container_uuid NULLS FIRST, state NULLS FIRST);
CREATE INDEX container_requests_created_at_uuid ON public.container_requests USING btree (created_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX container_requests_modified_at_uuid ON public.container_requests USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX container_requests_owner_uuid_created_at ON public.container_requests USING btree (owner_uuid NULLS FIRST, created_at NULLS FIRST);
CREATE INDEX container_requests_owner_uuid_modified_at ON public.container_requests USING btree (owner_uuid NULLS FIRST, modified_at NULLS FIRST);
CREATE INDEX container_requests_state_created_at ON public.container_requests USING btree (state NULLS FIRST, created_at NULLS FIRST);
CREATE INDEX container_requests_state_modified_at_uuid ON public.container_requests USING btree (state NULLS FIRST, modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_broad_key_reuse_key ON public.containers USING btree (broad_key NULLS FIRST, reuse_key NULLS FIRST);
CREATE INDEX containers_container_image_created_at ON public.containers USING btree (container_image NULLS FIRST, created_at NULLS FIRST);
CREATE INDEX containers_created_at_uuid ON public.containers USING btree (created_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_modified_at_uuid ON public.containers USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_state_modified_at_uuid ON public.containers USING btree (state NULLS FIRST, modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_state_priority ON public.containers USING btree (state NULLS FIRST, priority NULLS FIRST);
CREATE INDEX credentials_modified_at_uuid ON public.credentials USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX credentials_owner_uuid ON public.credentials USING btree (owner_uuid NULLS FIRST);
CREATE INDEX grants_target ON public.grants USING btree (target_uuid);
CREATE INDEX groups_delete_at ON public.groups USING btree (delete_at NULLS FIRST);
CREATE INDEX groups_modified_at_uuid ON public.groups USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX groups_owner_uuid ON public.groups USING btree (owner_uuid NULLS FIRST);
CREATE INDEX links_head_uuid ON public.links USING btree (head_uuid NULLS FIRST);
CREATE INDEX links_link_class_name ON public.links USING btree (link_class NULLS FIRST, name NULLS FIRST);
CREATE INDEX links_owner_uuid ON public.links USING btree (owner_uuid NULLS FIRST);
CREATE INDEX links_tail_uuid_head_uuid ON public.links USING btree (tail_uuid NULLS FIRST, head_uuid NULLS FIRST);
CREATE INDEX logs_object_uuid ON public.logs USING btree (object_uuid NULLS FIRST);
CREATE INDEX memberships_subject ON public.memberships USING btree (subject_uuid);
CREATE INDEX repositories_modified_at_uuid ON public.repositories USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX repositories_owner_uuid ON public.repositories USING btree (owner_uuid NULLS FIRST);
CREATE INDEX request_dependencies_dependent_uuid ON public.request_dependencies USING btree (dependent_uuid);
CREATE INDEX sparse_collections_delete_at ON public.collections USING btree (delete_at NULLS FIRST) WHERE (delete_at IS NOT NULL);
CREATE INDEX sparse_collections_trash_at ON public.collections USING btree (trash_at NULLS FIRST) WHERE (trash_at IS NOT NULL);
CREATE INDEX sparse_container_requests_requesting_container_uuid_state ON public.container_requests USING btree (requesting_container_uuid NULLS FIRST, state NULLS FIRST) WHERE ((requesting_container_uuid IS NOT NULL) AND (state IS NOT NULL));
CREATE INDEX sparse_container_requests_state_expires_at ON public.container_requests USING btree (state NULLS FIRST, expires_at NULLS FIRST) WHERE ((state IS NOT NULL) AND (expires_at IS NOT NULL));
CREATE INDEX sparse_container_requests_state_start_after ON public.container_requests USING btree (state NULLS FIRST, start_after NULLS FIRST) WHERE ((state IS NOT NULL) AND (start_after IS NOT NULL));
CREATE INDEX sparse_containers_auth_uuid ON public.containers USING btree (auth_uuid NULLS FIRST) WHERE (auth_uuid IS NOT NULL);
CREATE INDEX sparse_containers_locked_by_uuid ON public.containers USING btree (locked_by_uuid NULLS FIRST) WHERE (locked_by_uuid IS NOT NULL);
CREATE INDEX sparse_containers_log ON public.containers USING btree (log NULLS FIRST) WHERE (log IS NOT NULL);
CREATE INDEX sparse_containers_output ON public.containers USING btree (output NULLS FIRST) WHERE (output IS NOT NULL);
CREATE UNIQUE INDEX unique_collections_owner_uuid_name ON public.collections USING btree (owner_uuid, name) WHERE ((is_trashed = 0) AND (current_version_uuid = uuid));
CREATE UNIQUE INDEX unique_credentials_owner_uuid_name ON public.credentials USING btree (owner_uuid, name);
CREATE UNIQUE INDEX unique_groups_owner_uuid_name ON public.groups USING btree (owner_uuid, name) WHERE (is_trashed = 0);
CREATE UNIQUE INDEX unique_repositories_name ON public.repositories USING btree (name);
CREATE UNIQUE INDEX unique_users_email ON public.users USING btree (email);
CREATE UNIQUE INDEX unique_users_username ON public.users USING btree (username);
CREATE UNIQUE INDEX unique_virtual_machines_hostname ON public.virtual_machines USING btree (hostname);
CREATE INDEX virtual_machines_modified_at_uuid ON public.virtual_machines USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX virtual_machines_owner_uuid ON public.virtual_machines USING btree (owner_uuid NULLS FIRST);
CREATE INDEX workflows_modified_at_uuid ON public.workflows USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX workflows_owner_uuid ON public.workflows USING btree (owner_uuid NULLS FIRST);
