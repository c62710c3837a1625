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
	CONSTRAINT lading_json_check CHECK (((VALUE IS NULL) OR ((VALUE)::jsonb IS NOT NULL)));
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
        FROM json_array_elements(CASE json_typeof(document::json) WHEN 'array' THEN document::json END)
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
    secret_mounts public.lading_json DEFAULT '{}'::text,
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
    secret_mounts public.lading_json DEFAULT '{}'::text,
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
    prefs public.lading_json DEFAULT '{}'::text
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
INSERT INTO public.allocations VALUES ('zzzzz-dz642-mhb430ub75402g1', 'zzzzz-xvhdp-mlirma2n04qmdv1', 'zzzzz-tpzed-4yik69kgahxnnl0', 1, 'Locked', '2026-01-02T03:04:05.063000000Z', '2026-01-02T03:04:05.067000000Z');
INSERT INTO public.allocations VALUES ('zzzzz-dz642-mhb430ub75402g1', 'zzzzz-xvhdp-mlirma2n04qmdv1', 'zzzzz-tpzed-4yik69kgahxnnl0', 1, 'Running', '2026-01-02T03:04:05.067000000Z', '2026-01-02T03:04:05.082000000Z');
INSERT INTO public.allocations VALUES ('zzzzz-dz642-ca9q4gw9joi6zgl', 'zzzzz-xvhdp-nw06qqw4pka43vl', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 1000, 'Locked', '2026-01-02T03:04:05.111000000Z', '2026-01-02T03:04:05.115000000Z');
INSERT INTO public.allocations VALUES ('zzzzz-dz642-ca9q4gw9joi6zgl', 'zzzzz-xvhdp-nw06qqw4pka43vl', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 1000, 'Running', '2026-01-02T03:04:05.115000000Z', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.005000000Z', '2026-01-02T03:04:05.005000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["all"]', '160b4e433e384e05e537dc59b467f7cb2403f0214db15c5db58862a3f1156d2e', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-ddddddddddddddd', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.007000000Z', '2026-01-02T03:04:05.007000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["GET /arvados/v1/containers","GET /arvados/v1/containers/","PUT /arvados/v1/containers/","POST /arvados/v1/containers/","POST /arvados/v1/dispatch/statuses","POST /arvados/v1/logs","GET /websocket"]', 'd7bea1c4096828f2a20e45524019f6987f3ec62807064bd240d23ec3a1be3990', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-jp8xmcaj06iqhcm', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.037000000Z', '2026-01-02T03:04:05.037000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '127.0.0.1', NULL, NULL, NULL, '["all"]', '525af6df9fd32d696aa43caa0fb7f84be902f86f079c062a81cd64f39a64afb2', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-bwz2kf07dh718jk', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.063000000Z', '2026-01-02T03:04:05.082000000Z', 'zzzzz-tpzed-000000000000000', NULL, '2026-01-02T03:04:05.082000000Z', NULL, NULL, '["all"]', '76e8601cd8126f65848aedae92335b6248f4cfbb47019af3cc2b5c33110796dc', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-6cjluup7aisbz4p', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.063000000Z', '2026-01-02T03:04:05.082000000Z', 'zzzzz-tpzed-000000000000000', NULL, '2026-01-02T03:04:05.082000000Z', NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-mhb430ub75402g1","PUT /arvados/v1/containers/zzzzz-dz642-mhb430ub75402g1","GET /arvados/v1/containers/zzzzz-dz642-mhb430ub75402g1/auth","POST /arvados/v1/containers/zzzzz-dz642-mhb430ub75402g1/unlock","POST /arvados/v1/containers/zzzzz-dz642-mhb430ub75402g1/live/","GET /arvados/v1/users/current"]', '3f0c5a57fcc6e9f4c370e7732fc5965ca1ad06683aa7ccf6de58440b606b7384', 'zzzzz-dz642-mhb430ub75402g1');
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-l72ok0kc6u3j0md', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.111000000Z', '2026-01-02T03:04:05.111000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["all"]', '0a9320a3b19d2172eef6e62eee4f0629b4f681ca9991b889bba1c50375861d8d', NULL);
INSERT INTO public.api_client_authorizations VALUES ('zzzzz-gj3su-yhaxsl5edn8rll7', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.111000000Z', '2026-01-02T03:04:05.111000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, NULL, NULL, '["GET /arvados/v1/containers/zzzzz-dz642-ca9q4gw9joi6zgl","PUT /arvados/v1/containers/zzzzz-dz642-ca9q4gw9joi6zgl","GET /arvados/v1/containers/zzzzz-dz642-ca9q4gw9joi6zgl/auth","POST /arvados/v1/containers/zzzzz-dz642-ca9q4gw9joi6zgl/unlock","POST /arvados/v1/containers/zzzzz-dz642-ca9q4gw9joi6zgl/live/","GET /arvados/v1/users/current"]', '706b28414c5443433cee11f381df12fe4476fb3d388747c272585e06ba52f006', 'zzzzz-dz642-ca9q4gw9joi6zgl');
INSERT INTO public.collections VALUES ('zzzzz-4zz18-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.019000000Z', '2026-01-02T03:04:05.019000000Z', 'zzzzz-tpzed-000000000000000', 'empty collection', NULL, '{}', 'd41d8cd98f00b204e9800998ecf8427e+0', '', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-000000000000000', 0, 0, 0);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-sohl9jqh6n8lkvs', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.040000000Z', '2026-01-02T03:04:05.040000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'O''Neill', NULL, '{"k":"v","n":5,"list":["a",1]}', '89d39e194d313850607aa996373d6625+47', '. 5d41402abc4b2a76b9719d911017c592+5 0:5:a.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-sohl9jqh6n8lkvs', 0, 1, 5);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-0vonwiukg5tnaqd', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.051000000Z', '2026-01-02T03:04:05.051000000Z', 'zzzzz-tpzed-4yik69kgahxnnl0', NULL, NULL, '{}', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '. 5312e17c8c92d7c946a5940990a0a9d9+8 0:8:sha256:0000000000000000000000000000000000000000000000000000000000000000.tar
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-0vonwiukg5tnaqd', 0, 1, 8);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-oicrkt801xw30es', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.070000000Z', '2026-01-02T03:04:05.070000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'cf064af1e31382e72d71ce6276a416ae+58', '. 40720f4946c2791232afbcc7e077e87a+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, '2026-01-02T03:04:05.071000000Z', '2026-01-16T03:04:05.071000000Z', 1, 1, 'zzzzz-4zz18-oicrkt801xw30es', 0, 1, 27);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-e4kgfsxzejle7m5', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.075000000Z', '2026-01-02T03:04:05.075000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', '. 78e6221f6393d1356681db398f14ce6d+6 0:6:out.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, '2026-01-02T03:04:05.076000000Z', '2026-01-16T03:04:05.076000000Z', 1, 1, 'zzzzz-4zz18-e4kgfsxzejle7m5', 0, 1, 6);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-sx7pkhqv83d4sxy', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.084000000Z', '2026-01-02T03:04:05.084000000Z', 'zzzzz-tpzed-000000000000000', 'Container log for request zzzzz-xvhdp-mlirma2n04qmdv1', NULL, '{"type":"log","container_request":"zzzzz-xvhdp-mlirma2n04qmdv1"}', '8047d32ca16ab3f5e0982ecf0b7d58a9+171', '. 40720f4946c2791232afbcc7e077e87a+27 0:27:crunch-run.txt
./log\040for\040container\040zzzzz-dz642-mhb430ub75402g1 40720f4946c2791232afbcc7e077e87a+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-sx7pkhqv83d4sxy', 0, 2, 54);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-1cqhdfn1ximcyic', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.086000000Z', '2026-01-02T03:04:05.086000000Z', 'zzzzz-tpzed-000000000000000', 'Container output for request zzzzz-xvhdp-mlirma2n04qmdv1', NULL, '{"type":"output","container_request":"zzzzz-xvhdp-mlirma2n04qmdv1"}', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', '. 78e6221f6393d1356681db398f14ce6d+6 0:6:out.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-1cqhdfn1ximcyic', 0, 1, 6);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-6fnummkgmug4bro', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.088000000Z', '2026-01-02T03:04:05.088000000Z', 'zzzzz-tpzed-000000000000000', 'Container log for container zzzzz-dz642-mhb430ub75402g1', NULL, '{"type":"log","container_request":"zzzzz-xvhdp-mlirma2n04qmdv1","container_uuid":"zzzzz-dz642-mhb430ub75402g1"}', 'cf064af1e31382e72d71ce6276a416ae+58', '. 40720f4946c2791232afbcc7e077e87a+27 0:27:crunch-run.txt
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-6fnummkgmug4bro', 0, 1, 27);
INSERT INTO public.collections VALUES ('zzzzz-4zz18-ohkzk32wc32dmy7', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.092000000Z', '2026-01-02T03:04:05.092000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '. 5312e17c8c92d7c946a5940990a0a9d9+8 0:8:sha256:0000000000000000000000000000000000000000000000000000000000000000.tar
', NULL, NULL, NULL, '["default"]', '[]', NULL, NULL, NULL, 0, 1, 'zzzzz-4zz18-ohkzk32wc32dmy7', 0, 1, 8);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-mlirma2n04qmdv1', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.056000000Z', '2026-01-02T03:04:05.082000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, '{}', 'Final', NULL, 'zzzzz-dz642-mhb430ub75402g1', 3, 1, '[]', '["echo","1"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', NULL, 0, 1, 1, NULL, NULL, '[]', NULL, 'zzzzz-4zz18-sx7pkhqv83d4sxy', 'zzzzz-4zz18-1cqhdfn1ximcyic', 0, 'zzzzz-tpzed-4yik69kgahxnnl0', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-h3kwy2n14acft72', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.097000000Z', '2026-01-02T03:04:05.097000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'Committed', NULL, 'zzzzz-dz642-hogxgywy3n00hrn', 3, 1, '[]', '["echo","2"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{"/s":{"kind":"text","content":"secret"}}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', 'sealed1:DicTZVCko6bQf1wMALH+yT8U35V+7lPVbFB1v9q1J7IZqtLC11Na3RhOsv/TUc8AJisTpJ4lWMqGYOc1hkQwPl26PxG7/fdJhQQvReEAt1cnZDk6y2CDzbLmqpWmRqdGbt0v+VZQDR26ZwmM1Q==', 0, '{}', NULL, 0, 1, 1, NULL, NULL, '[]', NULL, NULL, NULL, 0, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-nw06qqw4pka43vl', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.104000000Z', '2026-01-02T03:04:05.104000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', NULL, NULL, '{}', 'Committed', NULL, 'zzzzz-dz642-ca9q4gw9joi6zgl', 3, 1, '[]', '["echo","3"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', NULL, 0, 1000, 1, NULL, NULL, '[]', NULL, NULL, NULL, 0, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 0);
INSERT INTO public.container_requests VALUES ('zzzzz-xvhdp-sfi8j455t1qxb6y', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.118000000Z', '2026-01-02T03:04:05.125000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'later', NULL, '{}', 'Uncommitted', NULL, NULL, 3, 0, '[]', '["echo","4"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"kind":"tmp","capacity":1000}}', '{}', '{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', NULL, 0, 1, 1, NULL, NULL, '["zzzzz-xvhdp-mlirma2n04qmdv1"]', NULL, NULL, NULL, 0, NULL, 0);
INSERT INTO public.containers VALUES ('zzzzz-dz642-mhb430ub75402g1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.056000000Z', '2026-01-02T03:04:05.082000000Z', 'zzzzz-tpzed-000000000000000', 'Complete', '["echo","1"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', '{}', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', '{}', 1124132583797568, 'zzzzz-tpzed-4yik69kgahxnnl0', '["all"]', NULL, NULL, 1, '{}', NULL, 'cf064af1e31382e72d71ce6276a416ae+58', 'dd8572c295693ec8dda7d6a1a6cd1f6c+49', 0, 0, 0, '2026-01-02T03:04:05.066000000Z', '2026-01-02T03:04:05.080000000Z', '', 0, NULL, '99914b932bd37a50b983c5e7c90ae93b', '7ddc1492655671ada59a3e0e4a39a8553452bba82759e7d23989fc6dfd9f0df0', '0593027aedb5e64e346649d534b72dc5dc10f33a44ad7d520874c69b280c3a55');
INSERT INTO public.containers VALUES ('zzzzz-dz642-hogxgywy3n00hrn', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.097000000Z', '2026-01-02T03:04:05.097000000Z', 'zzzzz-tpzed-000000000000000', 'Queued', '["echo","2"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', '{"/s":{"content":"secret","kind":"text"}}', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', 'sealed1:OLTmUuRNp/I3DZ4mvn+A2kgfQn8lFgWq+eKCZ0b9Ed2iC7SPVyiI68PGWPMRaeHb2XR2F1PHjPkAJH1N56fzhV2AvJ+i+csmjldkd6WqwnWizJPJ+I4Tdbyu8EbrQspDp/Toe6FsFTLCFjZUdA==', 0, '{}', '{}', 1124132583797527, 'zzzzz-tpzed-4yik69kgahxnnl0', '["all"]', NULL, NULL, 0, '{}', NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, '', 0, NULL, '2cafbeb8424de840068d6e5887c0932a', 'caa8b678b1ab0a38f6db908fa8b7eed394b88c4e59e7efe164bc598db8d85093', '1ddc27890efb99eb646ea3de141d48831b518b3388b967d4651141e652c0a61f');
INSERT INTO public.containers VALUES ('zzzzz-dz642-ca9q4gw9joi6zgl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.104000000Z', '2026-01-02T03:04:05.115000000Z', 'zzzzz-tpzed-000000000000000', 'Running', '["echo","3"]', '7b1921fee314b8aab5b2cd8488d5cfc1+117', '.', '{}', '{"/out":{"capacity":1000,"kind":"tmp"}}', '{}', '{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1}', '{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false}', '/out', '[]', '["default"]', '{}', NULL, 0, '{}', '{}', 1125898139519578896, 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '["all"]', 'zzzzz-gj3su-ddddddddddddddd', 'zzzzz-gj3su-l72ok0kc6u3j0md', 1, '{}', NULL, NULL, NULL, NULL, 0, 0, '2026-01-02T03:04:05.114000000Z', NULL, '', 0, 'zzzzz-gj3su-yhaxsl5edn8rll7', '99914b932bd37a50b983c5e7c90ae93b', '6fe07a8a2af448e4baf5972523d93f3c86e6821059fcaea8997c851539179393', '9e422c141a566aeea6ecb675ae9e67e48a97be5d8c6eb045a4335a9e9344543e');
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
INSERT INTO public.grants VALUES ('zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-tpzed-4yik69kgahxnnl0', 3, 1);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-j7d0g-fffffffffffffff', 2, 1);
INSERT INTO public.grants VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-4yik69kgahxnnl0', 1, 0);
INSERT INTO public.grants VALUES ('zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-j7d0g-iudgssbt2g5fkkl', 3, 1);
INSERT INTO public.group_standing VALUES ('zzzzz-j7d0g-iudgssbt2g5fkkl', '2026-01-02T03:04:05.128000000Z', 0);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.011000000Z', '2026-01-02T03:04:05.011000000Z', 'zzzzz-tpzed-000000000000000', 'System group', 'role', NULL, '{}', NULL, NULL, 0, NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.013000000Z', '2026-01-02T03:04:05.013000000Z', 'zzzzz-tpzed-000000000000000', 'All users', 'role', NULL, '{}', NULL, NULL, 0, NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.015000000Z', '2026-01-02T03:04:05.015000000Z', 'zzzzz-tpzed-000000000000000', 'Anonymous users', 'role', NULL, '{}', NULL, NULL, 0, NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-publicfavorites', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.017000000Z', '2026-01-02T03:04:05.017000000Z', 'zzzzz-tpzed-000000000000000', 'Public favorites', 'project', NULL, '{}', NULL, NULL, 0, NULL);
INSERT INTO public.groups VALUES ('zzzzz-j7d0g-iudgssbt2g5fkkl', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.121000000Z', '2026-01-02T03:04:05.129000000Z', 'zzzzz-tpzed-4yik69kgahxnnl0', 'work', 'project', NULL, '{}', '2026-01-02T03:04:05.128000000Z', '2026-01-16T03:04:05.128000000Z', 1, NULL);
INSERT INTO public.links VALUES ('zzzzz-o0j2j-6yolctj72zy4grl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.021000000Z', '2026-01-02T03:04:05.021000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-tpzed-anonymouspublic', 'zzzzz-j7d0g-anonymouspublic', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-63i0kesmxgh5hwe', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.023000000Z', '2026-01-02T03:04:05.023000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-anonymouspublic', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-u1lcpv71ocl0uhh', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.025000000Z', '2026-01-02T03:04:05.025000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-j7d0g-publicfavorites', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-kjdga6np2x4mzil', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.027000000Z', '2026-01-02T03:04:05.027000000Z', 'zzzzz-tpzed-000000000000000', 'permission', 'can_read', 'zzzzz-j7d0g-anonymouspublic', 'zzzzz-4zz18-000000000000000', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-3trk16qfhtl86ef', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.032000000Z', '2026-01-02T03:04:05.032000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'permission', 'can_write', 'zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-j7d0g-fffffffffffffff', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-fe1xtnf2gpiqteh', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.034000000Z', '2026-01-02T03:04:05.034000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'permission', 'can_read', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-4yik69kgahxnnl0', '{}');
INSERT INTO public.links VALUES ('zzzzz-o0j2j-jawhg8k0dnp77lp', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.045000000Z', '2026-01-02T03:04:05.045000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'tag', 't', NULL, 'zzzzz-4zz18-sohl9jqh6n8lkvs', '{}');
INSERT INTO public.logs VALUES (1, 'zzzzz-57u5n-1p66km86er9fqfh', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.002000000Z', '2026-01-02T03:04:05.002000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.002000000Z', 'create', 'create of zzzzz-tpzed-000000000000000', '{"new_etag":"aebc0c0fdc50ba7fd5a32bc9f","new_attributes":{"uuid":"zzzzz-tpzed-000000000000000","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.001000000Z","modified_at":"2026-01-02T03:04:05.001000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","email":null,"username":"root","first_name":"root","last_name":"","identity_url":null,"is_active":true,"is_admin":true,"prefs":{}}}');
INSERT INTO public.logs VALUES (2, 'zzzzz-57u5n-6jqm4zudg0b0gi8', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.004000000Z', '2026-01-02T03:04:05.004000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.004000000Z', 'create', 'create of zzzzz-tpzed-aaaaaaaaaaaaaaa', '{"new_etag":"f0a38221ad1968ce5c624489d","new_attributes":{"uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.003000000Z","modified_at":"2026-01-02T03:04:05.003000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","email":null,"username":"admin","first_name":"admin","last_name":"","identity_url":null,"is_active":true,"is_admin":true,"prefs":{}}}');
INSERT INTO public.logs VALUES (3, 'zzzzz-57u5n-da2cb4yg3hefvbs', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.006000000Z', '2026-01-02T03:04:05.006000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-gj3su-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.006000000Z', 'create', 'create of zzzzz-gj3su-aaaaaaaaaaaaaaa', '{"new_etag":"5cf03278533af6b9336c90f10","new_attributes":{"uuid":"zzzzz-gj3su-aaaaaaaaaaaaaaa","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.005000000Z","modified_at":"2026-01-02T03:04:05.005000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","created_by_ip_address":null,"expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["all"]}}');
INSERT INTO public.logs VALUES (4, 'zzzzz-57u5n-64unqttxrszsoz1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.008000000Z', '2026-01-02T03:04:05.008000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-gj3su-ddddddddddddddd', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.008000000Z', 'create', 'create of zzzzz-gj3su-ddddddddddddddd', '{"new_etag":"abd193ebccc64b6dc41cbc72b","new_attributes":{"uuid":"zzzzz-gj3su-ddddddddddddddd","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.007000000Z","modified_at":"2026-01-02T03:04:05.007000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","created_by_ip_address":null,"expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["GET /arvados/v1/containers","GET /arvados/v1/containers/","PUT /arvados/v1/containers/","POST /arvados/v1/containers/","POST /arvados/v1/dispatch/statuses","POST /arvados/v1/logs","GET /websocket"]}}');
INSERT INTO public.logs VALUES (5, 'zzzzz-57u5n-jar54odlj2eawp0', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.010000000Z', '2026-01-02T03:04:05.010000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.010000000Z', 'create', 'create of zzzzz-tpzed-anonymouspublic', '{"new_etag":"93c35d228dd530761d15a3d08","new_attributes":{"uuid":"zzzzz-tpzed-anonymouspublic","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.009000000Z","modified_at":"2026-01-02T03:04:05.009000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","email":null,"username":null,"first_name":"Anonymous","last_name":"","identity_url":null,"is_active":false,"is_admin":false,"prefs":{}}}');
INSERT INTO public.logs VALUES (6, 'zzzzz-57u5n-17djwub9f62h2ve', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.012000000Z', '2026-01-02T03:04:05.012000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.012000000Z', 'create', 'create of zzzzz-j7d0g-000000000000000', '{"new_etag":"04b6b4cc194972c0244e40f5f","new_attributes":{"uuid":"zzzzz-j7d0g-000000000000000","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.011000000Z","modified_at":"2026-01-02T03:04:05.011000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"System group","group_class":"role","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (7, 'zzzzz-57u5n-82oztsv13h4pdac', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.014000000Z', '2026-01-02T03:04:05.014000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-fffffffffffffff', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.014000000Z', 'create', 'create of zzzzz-j7d0g-fffffffffffffff', '{"new_etag":"67831b0e33268f549501e9e71","new_attributes":{"uuid":"zzzzz-j7d0g-fffffffffffffff","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.013000000Z","modified_at":"2026-01-02T03:04:05.013000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"All users","group_class":"role","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (8, 'zzzzz-57u5n-5zn1lvjc19wf62m', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.016000000Z', '2026-01-02T03:04:05.016000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.016000000Z', 'create', 'create of zzzzz-j7d0g-anonymouspublic', '{"new_etag":"cdde68f5edefec86abe0f3af0","new_attributes":{"uuid":"zzzzz-j7d0g-anonymouspublic","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.015000000Z","modified_at":"2026-01-02T03:04:05.015000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Anonymous users","group_class":"role","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (9, 'zzzzz-57u5n-7u9l187q3xk7tqv', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.018000000Z', '2026-01-02T03:04:05.018000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-j7d0g-publicfavorites', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.018000000Z', 'create', 'create of zzzzz-j7d0g-publicfavorites', '{"new_etag":"72bfe6c138de322738d91bc24","new_attributes":{"uuid":"zzzzz-j7d0g-publicfavorites","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.017000000Z","modified_at":"2026-01-02T03:04:05.017000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Public favorites","group_class":"project","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (10, 'zzzzz-57u5n-8515sgseen9os4k', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.020000000Z', '2026-01-02T03:04:05.020000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.020000000Z', 'create', 'create of zzzzz-4zz18-000000000000000', '{"new_etag":"f4e348af1b8476e96211a2b98","new_attributes":{"uuid":"zzzzz-4zz18-000000000000000","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.019000000Z","modified_at":"2026-01-02T03:04:05.019000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"empty collection","description":null,"properties":{},"portable_data_hash":"d41d8cd98f00b204e9800998ecf8427e+0","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-000000000000000","preserve_version":false,"file_count":0,"file_size_total":0}}');
INSERT INTO public.logs VALUES (11, 'zzzzz-57u5n-n5ao3snb3odnffw', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.022000000Z', '2026-01-02T03:04:05.022000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-6yolctj72zy4grl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.022000000Z', 'create', 'create of zzzzz-o0j2j-6yolctj72zy4grl', '{"new_etag":"236089814da92c04fcc90c136","new_attributes":{"uuid":"zzzzz-o0j2j-6yolctj72zy4grl","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.021000000Z","modified_at":"2026-01-02T03:04:05.021000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-tpzed-anonymouspublic","head_uuid":"zzzzz-j7d0g-anonymouspublic","properties":{}}}');
INSERT INTO public.logs VALUES (12, 'zzzzz-57u5n-2fhyr053c7hiv2l', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.024000000Z', '2026-01-02T03:04:05.024000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-63i0kesmxgh5hwe', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.024000000Z', 'create', 'create of zzzzz-o0j2j-63i0kesmxgh5hwe', '{"new_etag":"78b96287ebff0b5e493af6502","new_attributes":{"uuid":"zzzzz-o0j2j-63i0kesmxgh5hwe","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.023000000Z","modified_at":"2026-01-02T03:04:05.023000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-j7d0g-fffffffffffffff","head_uuid":"zzzzz-j7d0g-anonymouspublic","properties":{}}}');
INSERT INTO public.logs VALUES (13, 'zzzzz-57u5n-ochlavw2ectvoar', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.026000000Z', '2026-01-02T03:04:05.026000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-u1lcpv71ocl0uhh', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.026000000Z', 'create', 'create of zzzzz-o0j2j-u1lcpv71ocl0uhh', '{"new_etag":"78df9fffbbca188d1081589a0","new_attributes":{"uuid":"zzzzz-o0j2j-u1lcpv71ocl0uhh","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.025000000Z","modified_at":"2026-01-02T03:04:05.025000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-j7d0g-fffffffffffffff","head_uuid":"zzzzz-j7d0g-publicfavorites","properties":{}}}');
INSERT INTO public.logs VALUES (14, 'zzzzz-57u5n-zbt8nqzi1rzc5jh', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.028000000Z', '2026-01-02T03:04:05.028000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-o0j2j-kjdga6np2x4mzil', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.028000000Z', 'create', 'create of zzzzz-o0j2j-kjdga6np2x4mzil', '{"new_etag":"709945753c342710a326d1120","new_attributes":{"uuid":"zzzzz-o0j2j-kjdga6np2x4mzil","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.027000000Z","modified_at":"2026-01-02T03:04:05.027000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-j7d0g-anonymouspublic","head_uuid":"zzzzz-4zz18-000000000000000","properties":{}}}');
INSERT INTO public.logs VALUES (15, 'zzzzz-57u5n-bpj6zbm28mjdspt', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.031000000Z', '2026-01-02T03:04:05.031000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.031000000Z', 'create', 'create of zzzzz-tpzed-4yik69kgahxnnl0', '{"new_etag":"aa0a3cc4f3440b2ed785ae2d6","new_attributes":{"uuid":"zzzzz-tpzed-4yik69kgahxnnl0","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.030000000Z","modified_at":"2026-01-02T03:04:05.030000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","email":"ada@example.org","username":"ada","first_name":"","last_name":"","identity_url":null,"is_active":true,"is_admin":false,"prefs":{}}}');
INSERT INTO public.logs VALUES (16, 'zzzzz-57u5n-wvt88b4l5vxbaom', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.033000000Z', '2026-01-02T03:04:05.033000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-o0j2j-3trk16qfhtl86ef', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.033000000Z', 'create', 'create of zzzzz-o0j2j-3trk16qfhtl86ef', '{"new_etag":"a55aea2a52deef07a9dbe3776","new_attributes":{"uuid":"zzzzz-o0j2j-3trk16qfhtl86ef","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.032000000Z","modified_at":"2026-01-02T03:04:05.032000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","link_class":"permission","name":"can_write","tail_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","head_uuid":"zzzzz-j7d0g-fffffffffffffff","properties":{}}}');
INSERT INTO public.logs VALUES (17, 'zzzzz-57u5n-frke8fqpmhs47sb', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.035000000Z', '2026-01-02T03:04:05.035000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-o0j2j-fe1xtnf2gpiqteh', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.035000000Z', 'create', 'create of zzzzz-o0j2j-fe1xtnf2gpiqteh', '{"new_etag":"154b2c1981c086d766f31a1d4","new_attributes":{"uuid":"zzzzz-o0j2j-fe1xtnf2gpiqteh","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.034000000Z","modified_at":"2026-01-02T03:04:05.034000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","link_class":"permission","name":"can_read","tail_uuid":"zzzzz-j7d0g-fffffffffffffff","head_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","properties":{}}}');
INSERT INTO public.logs VALUES (18, 'zzzzz-57u5n-hslaz4uqd18vca3', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.038000000Z', '2026-01-02T03:04:05.038000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-gj3su-jp8xmcaj06iqhcm', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.038000000Z', 'create', 'create of zzzzz-gj3su-jp8xmcaj06iqhcm', '{"new_etag":"4481fd07208b4e89d8e8f74e8","new_attributes":{"uuid":"zzzzz-gj3su-jp8xmcaj06iqhcm","owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","created_at":"2026-01-02T03:04:05.037000000Z","modified_at":"2026-01-02T03:04:05.037000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_by_ip_address":"127.0.0.1","expires_at":null,"last_used_at":null,"last_used_by_ip_address":null,"scopes":["all"]}}');
INSERT INTO public.logs VALUES (19, 'zzzzz-57u5n-b361wc5wxsye61o', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.042000000Z', '2026-01-02T03:04:05.042000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-sohl9jqh6n8lkvs', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.042000000Z', 'create', 'create of zzzzz-4zz18-sohl9jqh6n8lkvs', '{"new_etag":"010f74f8475c97fea2a7880fc","new_attributes":{"uuid":"zzzzz-4zz18-sohl9jqh6n8lkvs","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.040000000Z","modified_at":"2026-01-02T03:04:05.040000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":"O''Neill","description":null,"properties":{"k":"v","n":5,"list":["a",1]},"portable_data_hash":"89d39e194d313850607aa996373d6625+47","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-sohl9jqh6n8lkvs","preserve_version":false,"file_count":1,"file_size_total":5}}');
INSERT INTO public.logs VALUES (20, 'zzzzz-57u5n-bmbz7yiuo0az3p1', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.046000000Z', '2026-01-02T03:04:05.046000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-o0j2j-jawhg8k0dnp77lp', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.046000000Z', 'create', 'create of zzzzz-o0j2j-jawhg8k0dnp77lp', '{"new_etag":"9b4bd6b554c53a8a26506fadd","new_attributes":{"uuid":"zzzzz-o0j2j-jawhg8k0dnp77lp","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.045000000Z","modified_at":"2026-01-02T03:04:05.045000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","link_class":"tag","name":"t","tail_uuid":null,"head_uuid":"zzzzz-4zz18-sohl9jqh6n8lkvs","properties":{}}}');
INSERT INTO public.logs VALUES (21, 'zzzzz-57u5n-vt3urjosy5cua13', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.048000000Z', '2026-01-02T03:04:05.048000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-sohl9jqh6n8lkvs', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.048000000Z', 'note', NULL, '{"text":"Grüße ✓"}');
INSERT INTO public.logs VALUES (22, 'zzzzz-57u5n-v2lqv0bjd2w43x0', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.053000000Z', '2026-01-02T03:04:05.053000000Z', 'zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-4zz18-0vonwiukg5tnaqd', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.053000000Z', 'create', 'create of zzzzz-4zz18-0vonwiukg5tnaqd', '{"new_etag":"969773de0655c56cddbaabdf6","new_attributes":{"uuid":"zzzzz-4zz18-0vonwiukg5tnaqd","owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","created_at":"2026-01-02T03:04:05.051000000Z","modified_at":"2026-01-02T03:04:05.051000000Z","modified_by_user_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","name":null,"description":null,"properties":{},"portable_data_hash":"7b1921fee314b8aab5b2cd8488d5cfc1+117","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-0vonwiukg5tnaqd","preserve_version":false,"file_count":1,"file_size_total":8}}');
INSERT INTO public.logs VALUES (23, 'zzzzz-57u5n-rbqg7s2358p37s6', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.059000000Z', '2026-01-02T03:04:05.059000000Z', 'zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-dz642-mhb430ub75402g1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.059000000Z', 'create', 'create of zzzzz-dz642-mhb430ub75402g1', '{"new_etag":"3a0d2b5825f78cc20828b817f","new_attributes":{"uuid":"zzzzz-dz642-mhb430ub75402g1","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.056000000Z","modified_at":"2026-01-02T03:04:05.056000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","state":"Queued","command":["echo","1"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"capacity":1000,"kind":"tmp"}},"runtime_constraints":{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"constraint_ranges":{},"priority":1124132583797568,"runtime_user_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"","interactive_session_started":false}}');
INSERT INTO public.logs VALUES (24, 'zzzzz-57u5n-y79r3z0eiv1w3jz', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.060000000Z', '2026-01-02T03:04:05.060000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-mlirma2n04qmdv1', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.060000000Z', 'resolve', 'new zzzzz-dz642-mhb430ub75402g1: the same was never asked for before', '{"decision":"new","reason":"the same was never asked for before","container_uuid":"zzzzz-dz642-mhb430ub75402g1","candidates":[],"nearest":null,"near":[],"git":{}}');
INSERT INTO public.logs VALUES (25, 'zzzzz-57u5n-8b6fxmjgafpyc0n', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.061000000Z', '2026-01-02T03:04:05.061000000Z', 'zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-xvhdp-mlirma2n04qmdv1', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.061000000Z', 'create', 'create of zzzzz-xvhdp-mlirma2n04qmdv1', '{"new_etag":"393356e85248883d29d935d9b","new_attributes":{"uuid":"zzzzz-xvhdp-mlirma2n04qmdv1","owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","created_at":"2026-01-02T03:04:05.056000000Z","modified_at":"2026-01-02T03:04:05.056000000Z","modified_by_user_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","name":null,"description":null,"properties":{},"state":"Committed","requesting_container_uuid":null,"container_uuid":"zzzzz-dz642-mhb430ub75402g1","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["echo","1"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1,"use_existing":true,"expires_at":null,"filters":null,"depends_on":[],"start_after":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (26, 'zzzzz-57u5n-jkio2cb80p6wejl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.064000000Z', '2026-01-02T03:04:05.064000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-mhb430ub75402g1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.064000000Z', 'update', 'update of zzzzz-dz642-mhb430ub75402g1', '{"old_etag":"3a0d2b5825f78cc20828b817f","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.056000000Z","state":"Queued","locked_by_uuid":null,"auth_uuid":null,"lock_count":0},"new_etag":"edb6073a9085c5b31d30deefc","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.063000000Z","state":"Locked","locked_by_uuid":"zzzzz-gj3su-ddddddddddddddd","auth_uuid":"zzzzz-gj3su-bwz2kf07dh718jk","lock_count":1}}');
INSERT INTO public.logs VALUES (27, 'zzzzz-57u5n-pvzi1pexqq3tesk', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.068000000Z', '2026-01-02T03:04:05.068000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-mhb430ub75402g1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.068000000Z', 'update', 'update of zzzzz-dz642-mhb430ub75402g1', '{"old_etag":"edb6073a9085c5b31d30deefc","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.063000000Z","state":"Locked","started_at":null},"new_etag":"30360aa751c069baa9f044c80","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.067000000Z","state":"Running","started_at":"2026-01-02T03:04:05.066000000Z"}}');
INSERT INTO public.logs VALUES (28, 'zzzzz-57u5n-jcralt56lhxq5zs', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.072000000Z', '2026-01-02T03:04:05.072000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-oicrkt801xw30es', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.072000000Z', 'create', 'create of zzzzz-4zz18-oicrkt801xw30es', '{"new_etag":"a0bf2eb359c65b25568298e2c","new_attributes":{"uuid":"zzzzz-4zz18-oicrkt801xw30es","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.070000000Z","modified_at":"2026-01-02T03:04:05.070000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"portable_data_hash":"cf064af1e31382e72d71ce6276a416ae+58","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":"2026-01-02T03:04:05.071000000Z","delete_at":"2026-01-16T03:04:05.071000000Z","is_trashed":true,"version":1,"current_version_uuid":"zzzzz-4zz18-oicrkt801xw30es","preserve_version":false,"file_count":1,"file_size_total":27}}');
INSERT INTO public.logs VALUES (29, 'zzzzz-57u5n-ek1fpb0j4irtj9k', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.077000000Z', '2026-01-02T03:04:05.077000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-e4kgfsxzejle7m5', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.077000000Z', 'create', 'create of zzzzz-4zz18-e4kgfsxzejle7m5', '{"new_etag":"643abadfa5abe4abcb1c8c965","new_attributes":{"uuid":"zzzzz-4zz18-e4kgfsxzejle7m5","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.075000000Z","modified_at":"2026-01-02T03:04:05.075000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"portable_data_hash":"dd8572c295693ec8dda7d6a1a6cd1f6c+49","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":"2026-01-02T03:04:05.076000000Z","delete_at":"2026-01-16T03:04:05.076000000Z","is_trashed":true,"version":1,"current_version_uuid":"zzzzz-4zz18-e4kgfsxzejle7m5","preserve_version":false,"file_count":1,"file_size_total":6}}');
INSERT INTO public.logs VALUES (30, 'zzzzz-57u5n-vvwsspln0de30kb', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.083000000Z', '2026-01-02T03:04:05.083000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-mhb430ub75402g1', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.083000000Z', 'update', 'update of zzzzz-dz642-mhb430ub75402g1', '{"old_etag":"30360aa751c069baa9f044c80","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.067000000Z","state":"Running","locked_by_uuid":"zzzzz-gj3su-ddddddddddddddd","auth_uuid":"zzzzz-gj3su-bwz2kf07dh718jk","log":null,"output":null,"exit_code":null,"finished_at":null},"new_etag":"058d153b304f9d015f95b7f6b","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.082000000Z","state":"Complete","locked_by_uuid":null,"auth_uuid":null,"log":"cf064af1e31382e72d71ce6276a416ae+58","output":"dd8572c295693ec8dda7d6a1a6cd1f6c+49","exit_code":0,"finished_at":"2026-01-02T03:04:05.080000000Z"}}');
INSERT INTO public.logs VALUES (31, 'zzzzz-57u5n-9gpjutd6zl7icag', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.085000000Z', '2026-01-02T03:04:05.085000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-sx7pkhqv83d4sxy', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.085000000Z', 'create', 'create of zzzzz-4zz18-sx7pkhqv83d4sxy', '{"new_etag":"305cc5f7d5941a75aeb6f0f52","new_attributes":{"uuid":"zzzzz-4zz18-sx7pkhqv83d4sxy","owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","created_at":"2026-01-02T03:04:05.084000000Z","modified_at":"2026-01-02T03:04:05.084000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Container log for request zzzzz-xvhdp-mlirma2n04qmdv1","description":null,"properties":{"type":"log","container_request":"zzzzz-xvhdp-mlirma2n04qmdv1"},"portable_data_hash":"8047d32ca16ab3f5e0982ecf0b7d58a9+171","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-sx7pkhqv83d4sxy","preserve_version":false,"file_count":2,"file_size_total":54}}');
INSERT INTO public.logs VALUES (32, 'zzzzz-57u5n-ywl86ul6q5qf3qp', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.087000000Z', '2026-01-02T03:04:05.087000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-1cqhdfn1ximcyic', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.087000000Z', 'create', 'create of zzzzz-4zz18-1cqhdfn1ximcyic', '{"new_etag":"9d162ce04a225f8992c88fa9e","new_attributes":{"uuid":"zzzzz-4zz18-1cqhdfn1ximcyic","owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","created_at":"2026-01-02T03:04:05.086000000Z","modified_at":"2026-01-02T03:04:05.086000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Container output for request zzzzz-xvhdp-mlirma2n04qmdv1","description":null,"properties":{"type":"output","container_request":"zzzzz-xvhdp-mlirma2n04qmdv1"},"portable_data_hash":"dd8572c295693ec8dda7d6a1a6cd1f6c+49","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-1cqhdfn1ximcyic","preserve_version":false,"file_count":1,"file_size_total":6}}');
INSERT INTO public.logs VALUES (33, 'zzzzz-57u5n-oe5k4htj8z8xr0j', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.089000000Z', '2026-01-02T03:04:05.089000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-4zz18-6fnummkgmug4bro', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.089000000Z', 'create', 'create of zzzzz-4zz18-6fnummkgmug4bro', '{"new_etag":"34d1d7f19be469f9a4bae639c","new_attributes":{"uuid":"zzzzz-4zz18-6fnummkgmug4bro","owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","created_at":"2026-01-02T03:04:05.088000000Z","modified_at":"2026-01-02T03:04:05.088000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":"Container log for container zzzzz-dz642-mhb430ub75402g1","description":null,"properties":{"type":"log","container_request":"zzzzz-xvhdp-mlirma2n04qmdv1","container_uuid":"zzzzz-dz642-mhb430ub75402g1"},"portable_data_hash":"cf064af1e31382e72d71ce6276a416ae+58","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-6fnummkgmug4bro","preserve_version":false,"file_count":1,"file_size_total":27}}');
INSERT INTO public.logs VALUES (34, 'zzzzz-57u5n-cunphx4l9uyofwx', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.090000000Z', '2026-01-02T03:04:05.090000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-mlirma2n04qmdv1', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.090000000Z', 'update', 'update of zzzzz-xvhdp-mlirma2n04qmdv1', '{"old_etag":"393356e85248883d29d935d9b","old_attributes":{"owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","modified_at":"2026-01-02T03:04:05.056000000Z","modified_by_user_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","name":null,"state":"Committed","requesting_container_uuid":null,"log_uuid":null,"output_uuid":null},"new_etag":"2483c1cf8a1bd6996775e8267","new_attributes":{"owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","modified_at":"2026-01-02T03:04:05.082000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","name":null,"state":"Final","requesting_container_uuid":null,"log_uuid":"zzzzz-4zz18-sx7pkhqv83d4sxy","output_uuid":"zzzzz-4zz18-1cqhdfn1ximcyic"}}');
INSERT INTO public.logs VALUES (35, 'zzzzz-57u5n-uvs1zk2f6jyja22', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.094000000Z', '2026-01-02T03:04:05.094000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-4zz18-ohkzk32wc32dmy7', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.094000000Z', 'create', 'create of zzzzz-4zz18-ohkzk32wc32dmy7', '{"new_etag":"4a0bbf40fb938ffe1ddd3de61","new_attributes":{"uuid":"zzzzz-4zz18-ohkzk32wc32dmy7","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.092000000Z","modified_at":"2026-01-02T03:04:05.092000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"portable_data_hash":"7b1921fee314b8aab5b2cd8488d5cfc1+117","replication_desired":null,"replication_confirmed":null,"replication_confirmed_at":null,"storage_classes_desired":["default"],"storage_classes_confirmed":[],"storage_classes_confirmed_at":null,"trash_at":null,"delete_at":null,"is_trashed":false,"version":1,"current_version_uuid":"zzzzz-4zz18-ohkzk32wc32dmy7","preserve_version":false,"file_count":1,"file_size_total":8}}');
INSERT INTO public.logs VALUES (36, 'zzzzz-57u5n-onmmwbg5nohm8ut', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.100000000Z', '2026-01-02T03:04:05.100000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-dz642-hogxgywy3n00hrn', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.100000000Z', 'create', 'create of zzzzz-dz642-hogxgywy3n00hrn', '{"new_etag":"2670c0ff388794d239980a5d0","new_attributes":{"uuid":"zzzzz-dz642-hogxgywy3n00hrn","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.097000000Z","modified_at":"2026-01-02T03:04:05.097000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","state":"Queued","command":["echo","2"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"capacity":1000,"kind":"tmp"}},"runtime_constraints":{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"constraint_ranges":{},"priority":1124132583797527,"runtime_user_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"","interactive_session_started":false}}');
INSERT INTO public.logs VALUES (37, 'zzzzz-57u5n-c8be32gljha1w6e', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.101000000Z', '2026-01-02T03:04:05.101000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-h3kwy2n14acft72', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.101000000Z', 'resolve', 'new zzzzz-dz642-hogxgywy3n00hrn: the same was never asked for before', '{"decision":"new","reason":"the same was never asked for before","container_uuid":"zzzzz-dz642-hogxgywy3n00hrn","candidates":[],"nearest":null,"near":[],"git":{}}');
INSERT INTO public.logs VALUES (38, 'zzzzz-57u5n-ieaxftdiob21g2a', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.102000000Z', '2026-01-02T03:04:05.102000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-xvhdp-h3kwy2n14acft72', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.102000000Z', 'create', 'create of zzzzz-xvhdp-h3kwy2n14acft72', '{"new_etag":"8ab339a3ccdee6e2d500b1ed8","new_attributes":{"uuid":"zzzzz-xvhdp-h3kwy2n14acft72","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.097000000Z","modified_at":"2026-01-02T03:04:05.097000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"state":"Committed","requesting_container_uuid":null,"container_uuid":"zzzzz-dz642-hogxgywy3n00hrn","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["echo","2"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1,"use_existing":true,"expires_at":null,"filters":null,"depends_on":[],"start_after":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (39, 'zzzzz-57u5n-vbvv6uu2rrhp81g', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.107000000Z', '2026-01-02T03:04:05.107000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-dz642-ca9q4gw9joi6zgl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.107000000Z', 'create', 'create of zzzzz-dz642-ca9q4gw9joi6zgl', '{"new_etag":"f72ac81fcff8b941980f6d174","new_attributes":{"uuid":"zzzzz-dz642-ca9q4gw9joi6zgl","owner_uuid":"zzzzz-tpzed-000000000000000","created_at":"2026-01-02T03:04:05.104000000Z","modified_at":"2026-01-02T03:04:05.104000000Z","modified_by_user_uuid":"zzzzz-tpzed-000000000000000","state":"Queued","command":["echo","3"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"capacity":1000,"kind":"tmp"}},"runtime_constraints":{"API":false,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0},"keep_cache_disk":2147483648,"keep_cache_ram":0,"ram":268435456,"vcpus":1},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"constraint_ranges":{},"priority":1125898139519578896,"runtime_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","runtime_auth_scopes":["all"],"locked_by_uuid":null,"auth_uuid":null,"lock_count":0,"runtime_status":{},"progress":null,"log":null,"output":null,"exit_code":null,"cost":0.0,"subrequests_cost":0.0,"started_at":null,"finished_at":null,"gateway_address":"","interactive_session_started":false}}');
INSERT INTO public.logs VALUES (40, 'zzzzz-57u5n-evi05gy3n2qp92i', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.108000000Z', '2026-01-02T03:04:05.108000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-xvhdp-nw06qqw4pka43vl', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.108000000Z', 'resolve', 'new zzzzz-dz642-ca9q4gw9joi6zgl: the same was never asked for before', '{"decision":"new","reason":"the same was never asked for before","container_uuid":"zzzzz-dz642-ca9q4gw9joi6zgl","candidates":[],"nearest":null,"near":[],"git":{}}');
INSERT INTO public.logs VALUES (41, 'zzzzz-57u5n-2ktc5uv6fjqbrqn', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.109000000Z', '2026-01-02T03:04:05.109000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-xvhdp-nw06qqw4pka43vl', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.109000000Z', 'create', 'create of zzzzz-xvhdp-nw06qqw4pka43vl', '{"new_etag":"6ebe723efaf51f33afb8ce044","new_attributes":{"uuid":"zzzzz-xvhdp-nw06qqw4pka43vl","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.104000000Z","modified_at":"2026-01-02T03:04:05.104000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"state":"Committed","requesting_container_uuid":null,"container_uuid":"zzzzz-dz642-ca9q4gw9joi6zgl","container_count_max":3,"container_count":1,"attempted_container_uuids":[],"command":["echo","3"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1000,"use_existing":true,"expires_at":null,"filters":null,"depends_on":[],"start_after":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (42, 'zzzzz-57u5n-7b6p1ogh9jokx2k', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.112000000Z', '2026-01-02T03:04:05.112000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-ca9q4gw9joi6zgl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.112000000Z', 'update', 'update of zzzzz-dz642-ca9q4gw9joi6zgl', '{"old_etag":"f72ac81fcff8b941980f6d174","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.104000000Z","state":"Queued","locked_by_uuid":null,"auth_uuid":null,"lock_count":0},"new_etag":"bf48cea79a14a58d6a10cbfb4","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.111000000Z","state":"Locked","locked_by_uuid":"zzzzz-gj3su-ddddddddddddddd","auth_uuid":"zzzzz-gj3su-l72ok0kc6u3j0md","lock_count":1}}');
INSERT INTO public.logs VALUES (43, 'zzzzz-57u5n-evuqar1i9o0m574', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.116000000Z', '2026-01-02T03:04:05.116000000Z', 'zzzzz-tpzed-000000000000000', 'zzzzz-dz642-ca9q4gw9joi6zgl', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.116000000Z', 'update', 'update of zzzzz-dz642-ca9q4gw9joi6zgl', '{"old_etag":"bf48cea79a14a58d6a10cbfb4","old_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.111000000Z","state":"Locked","started_at":null},"new_etag":"3d2e91632449beecee3dba42b","new_attributes":{"owner_uuid":"zzzzz-tpzed-000000000000000","modified_at":"2026-01-02T03:04:05.115000000Z","state":"Running","started_at":"2026-01-02T03:04:05.114000000Z"}}');
INSERT INTO public.logs VALUES (44, 'zzzzz-57u5n-tjfkzcapz7hcr41', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.119000000Z', '2026-01-02T03:04:05.119000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-xvhdp-sfi8j455t1qxb6y', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.119000000Z', 'create', 'create of zzzzz-xvhdp-sfi8j455t1qxb6y', '{"new_etag":"b5505b361f99b5e322b3a778c","new_attributes":{"uuid":"zzzzz-xvhdp-sfi8j455t1qxb6y","owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","created_at":"2026-01-02T03:04:05.118000000Z","modified_at":"2026-01-02T03:04:05.118000000Z","modified_by_user_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","name":null,"description":null,"properties":{},"state":"Uncommitted","requesting_container_uuid":null,"container_uuid":null,"container_count_max":3,"container_count":0,"attempted_container_uuids":[],"command":["echo","4"],"container_image":"7b1921fee314b8aab5b2cd8488d5cfc1+117","cwd":".","environment":{},"mounts":{"/out":{"kind":"tmp","capacity":1000}},"runtime_constraints":{"API":false,"keep_cache_disk":0,"keep_cache_ram":0,"ram":268435456,"vcpus":1,"gpu":{"device_count":0,"driver_version":"","hardware_target":[],"stack":"","vram":0}},"scheduling_parameters":{"max_run_time":0,"partitions":[],"preemptible":false,"supervisor":false},"output_path":"/out","output_glob":[],"output_storage_classes":["default"],"output_properties":{},"service":false,"published_ports":{},"output_name":null,"output_ttl":0,"priority":1,"use_existing":true,"expires_at":null,"filters":null,"depends_on":[],"start_after":null,"log_uuid":null,"output_uuid":null,"cumulative_cost":0.0}}');
INSERT INTO public.logs VALUES (45, 'zzzzz-57u5n-ypvziixopgq6kcg', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.123000000Z', '2026-01-02T03:04:05.123000000Z', 'zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-j7d0g-iudgssbt2g5fkkl', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.123000000Z', 'create', 'create of zzzzz-j7d0g-iudgssbt2g5fkkl', '{"new_etag":"323848119a4051914157ad0da","new_attributes":{"uuid":"zzzzz-j7d0g-iudgssbt2g5fkkl","owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","created_at":"2026-01-02T03:04:05.121000000Z","modified_at":"2026-01-02T03:04:05.121000000Z","modified_by_user_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","name":"work","group_class":"project","description":null,"properties":{},"trash_at":null,"delete_at":null,"is_trashed":false,"frozen_by_uuid":null}}');
INSERT INTO public.logs VALUES (46, 'zzzzz-57u5n-gked285lo4uu8w3', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.126000000Z', '2026-01-02T03:04:05.126000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-xvhdp-sfi8j455t1qxb6y', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', '2026-01-02T03:04:05.126000000Z', 'update', 'update of zzzzz-xvhdp-sfi8j455t1qxb6y', '{"old_etag":"b5505b361f99b5e322b3a778c","old_attributes":{"owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","modified_at":"2026-01-02T03:04:05.118000000Z","name":null,"state":"Uncommitted","requesting_container_uuid":null,"depends_on":[]},"new_etag":"057371e2db4738e9208180265","new_attributes":{"owner_uuid":"zzzzz-tpzed-aaaaaaaaaaaaaaa","modified_at":"2026-01-02T03:04:05.125000000Z","name":"later","state":"Uncommitted","requesting_container_uuid":null,"depends_on":["zzzzz-xvhdp-mlirma2n04qmdv1"]}}');
INSERT INTO public.logs VALUES (47, 'zzzzz-57u5n-pbn3bubd9mfy5qi', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.130000000Z', '2026-01-02T03:04:05.130000000Z', 'zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-j7d0g-iudgssbt2g5fkkl', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.130000000Z', 'update', 'update of zzzzz-j7d0g-iudgssbt2g5fkkl', '{"old_etag":"323848119a4051914157ad0da","old_attributes":{"owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","modified_at":"2026-01-02T03:04:05.121000000Z","name":"work","trash_at":null,"delete_at":null,"is_trashed":false},"new_etag":"6afcb800509c6c16c5aa6d353","new_attributes":{"owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","modified_at":"2026-01-02T03:04:05.129000000Z","name":"work","trash_at":"2026-01-02T03:04:05.128000000Z","delete_at":"2026-01-16T03:04:05.128000000Z","is_trashed":true}}');
INSERT INTO public.logs VALUES (48, 'zzzzz-57u5n-7ezt1vg5te3owne', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.133000000Z', '2026-01-02T03:04:05.133000000Z', 'zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-7fd4e-r2dkfqztowzlnjy', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.133000000Z', 'create', 'create of zzzzz-7fd4e-r2dkfqztowzlnjy', '{"new_etag":"b013e5b91f4bad6dca3e267af","new_attributes":{"uuid":"zzzzz-7fd4e-r2dkfqztowzlnjy","owner_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","created_at":"2026-01-02T03:04:05.132000000Z","modified_at":"2026-01-02T03:04:05.132000000Z","modified_by_user_uuid":"zzzzz-tpzed-4yik69kgahxnnl0","name":"W","description":null,"definition":"name: w\n","collection_uuid":null}}');
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-anonymouspublic', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-j7d0g-anonymouspublic', 1);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-tpzed-4yik69kgahxnnl0', 3);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-j7d0g-fffffffffffffff', 2);
INSERT INTO public.memberships VALUES ('zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-j7d0g-anonymouspublic', 1);
INSERT INTO public.schema_versions VALUES (1, '2026-01-02T03:04:05.000000000Z', 'first tables');
INSERT INTO public.schema_versions VALUES (2, '2026-01-02T03:04:05.000000000Z', 'seal runtime tokens');
INSERT INTO public.schema_versions VALUES (3, '2026-01-02T03:04:05.000000000Z', 'name the steps');
INSERT INTO public.schema_versions VALUES (4, '2026-01-02T03:04:05.000000000Z', 'broad keys of containers');
INSERT INTO public.users VALUES ('zzzzz-tpzed-000000000000000', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.001000000Z', '2026-01-02T03:04:05.001000000Z', 'zzzzz-tpzed-000000000000000', NULL, 'root', 'root', '', NULL, 1, 1, '{}');
INSERT INTO public.users VALUES ('zzzzz-tpzed-aaaaaaaaaaaaaaa', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.003000000Z', '2026-01-02T03:04:05.003000000Z', 'zzzzz-tpzed-000000000000000', NULL, 'admin', 'admin', '', NULL, 1, 1, '{}');
INSERT INTO public.users VALUES ('zzzzz-tpzed-anonymouspublic', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.009000000Z', '2026-01-02T03:04:05.009000000Z', 'zzzzz-tpzed-000000000000000', NULL, NULL, 'Anonymous', '', NULL, 0, 0, '{}');
INSERT INTO public.users VALUES ('zzzzz-tpzed-4yik69kgahxnnl0', 'zzzzz-tpzed-000000000000000', '2026-01-02T03:04:05.030000000Z', '2026-01-02T03:04:05.030000000Z', 'zzzzz-tpzed-aaaaaaaaaaaaaaa', 'ada@example.org', 'ada', '', '', NULL, 1, 0, '{}');
INSERT INTO public.workflows VALUES ('zzzzz-7fd4e-r2dkfqztowzlnjy', 'zzzzz-tpzed-4yik69kgahxnnl0', '2026-01-02T03:04:05.132000000Z', '2026-01-02T03:04:05.132000000Z', 'zzzzz-tpzed-4yik69kgahxnnl0', 'W', NULL, 'name: w
', NULL);
SELECT pg_catalog.setval('public.logs_id_seq', 48, true);
ALTER TABLE ONLY public.api_client_authorizations
    ADD CONSTRAINT api_client_authorizations_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.collections
    ADD CONSTRAINT collections_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.container_requests
    ADD CONSTRAINT container_requests_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.containers
    ADD CONSTRAINT containers_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_pkey PRIMARY KEY (uuid);
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
ALTER TABLE ONLY public.schema_versions
    ADD CONSTRAINT schema_versions_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (uuid);
CREATE INDEX allocations_container_uuid ON public.allocations USING btree (container_uuid, started_at);
CREATE INDEX api_client_authorizations_container_uuid ON public.api_client_authorizations USING btree (container_uuid NULLS FIRST);
CREATE INDEX api_client_authorizations_owner_uuid ON public.api_client_authorizations USING btree (owner_uuid NULLS FIRST);
CREATE INDEX api_client_authorizations_secret_hash ON public.api_client_authorizations USING btree (secret_hash NULLS FIRST);
CREATE INDEX collections_delete_at ON public.collections USING btree (delete_at NULLS FIRST);
CREATE INDEX collections_modified_at_uuid ON public.collections USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX collections_owner_uuid_modified_at ON public.collections USING btree (owner_uuid NULLS FIRST, modified_at NULLS FIRST);
CREATE INDEX collections_portable_data_hash ON public.collections USING btree (portable_data_hash NULLS FIRST);
CREATE INDEX collections_trash_at ON public.collections USING btree (trash_at NULLS FIRST);
CREATE INDEX container_requests_container_uuid_state ON public.container_requests USING btree (container_uuid NULLS FIRST, state NULLS FIRST);
CREATE INDEX container_requests_modified_at_uuid ON public.container_requests USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX container_requests_owner_uuid_modified_at ON public.container_requests USING btree (owner_uuid NULLS FIRST, modified_at NULLS FIRST);
CREATE INDEX container_requests_requesting_container_uuid_state ON public.container_requests USING btree (requesting_container_uuid NULLS FIRST, state NULLS FIRST);
CREATE INDEX container_requests_state_expires_at ON public.container_requests USING btree (state NULLS FIRST, expires_at NULLS FIRST);
CREATE INDEX container_requests_state_start_after ON public.container_requests USING btree (state NULLS FIRST, start_after NULLS FIRST);
CREATE INDEX containers_auth_uuid ON public.containers USING btree (auth_uuid NULLS FIRST);
CREATE INDEX containers_broad_key_state ON public.containers USING btree (broad_key NULLS FIRST, state NULLS FIRST);
CREATE INDEX containers_locked_by_uuid ON public.containers USING btree (locked_by_uuid NULLS FIRST);
CREATE INDEX containers_modified_at_uuid ON public.containers USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX containers_reuse_key_state ON public.containers USING btree (reuse_key NULLS FIRST, state NULLS FIRST);
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
CREATE UNIQUE INDEX unique_collections_owner_uuid_name ON public.collections USING btree (owner_uuid, name) WHERE ((is_trashed = 0) AND (current_version_uuid = uuid));
CREATE UNIQUE INDEX unique_credentials_owner_uuid_name ON public.credentials USING btree (owner_uuid, name);
CREATE UNIQUE INDEX unique_groups_owner_uuid_name ON public.groups USING btree (owner_uuid, name) WHERE (is_trashed = 0);
CREATE UNIQUE INDEX unique_repositories_name ON public.repositories USING btree (name);
CREATE UNIQUE INDEX unique_users_email ON public.users USING btree (email);
CREATE UNIQUE INDEX unique_users_username ON public.users USING btree (username);
CREATE INDEX workflows_modified_at_uuid ON public.workflows USING btree (modified_at NULLS FIRST, uuid NULLS FIRST);
CREATE INDEX workflows_owner_uuid ON public.workflows USING btree (owner_uuid NULLS FIRST);
