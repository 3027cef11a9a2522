{{ config(materialized='sqlanon', policy='policies/patients.yml', options=['--no-workload']) }}
select * from {{ ref('patients') }}
