{# Run a command of sqlanon on the database that dbt has open. Gives the file that holds what it printed.
   By hand: dbt run-operation sqlanon.run --args '{words: [refresh, policies/counts.yml]}' #}
{% macro run(words, expected=[0]) %}
  {% set path = (flags.TARGET_PATH or 'target') ~ '/sqlanon/' ~ local_md5(words | join(' ')) ~ '.out' %}
  {% do adapter.store_relation('sqlanon', none, [], path, 'text', {'words': words, 'expected': expected}) %}
  {{ return(path) }}
{% endmacro %}
