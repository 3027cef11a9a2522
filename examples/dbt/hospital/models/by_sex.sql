select sex, count(*) as patients from {{ ref('patients_released') }} group by sex
