// What reloads.cs loads.
using System.Collections.Generic;

namespace Plugin
{
    public sealed class Item { public long Value; public List<Item> Others; }

    public static class Maker
    {
        static long made;

        public static object Make()
        {
            made++;
            return new Item { Value = made, Others = new List<Item>() };
        }
    }
}
